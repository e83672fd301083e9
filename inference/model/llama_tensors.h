// Which tensors a llama model has, by role: found by name, checked for shape.
#pragma once

#include <optional>
#include <vector>

#include "core/status.h"
#include "inference/gguf/gguf_file.h"
#include "inference/model/llama_config.h"

namespace terrace::inference {

// Matrices are [inputs, outputs]: rows() outputs of dims[0] contiguous inputs. Data points into the
// file's mapping. A fused attn_qkv arrives split into its three parts.
struct LlamaLayerTensors {
  gguf::Tensor attention_norm, query, key, value, attention_output;
  gguf::Tensor feed_forward_norm, gate, up, down;
  std::optional<gguf::Tensor> query_bias, key_bias, value_bias, attention_output_bias;
  std::optional<gguf::Tensor> gate_bias, up_bias, down_bias;
};

struct LlamaTensors {
  gguf::Tensor token_embedding;  // [embedding, vocabulary]
  gguf::Tensor output_norm;
  gguf::Tensor output;  // the token embedding where it is tied
  bool tied_output = false;
  std::optional<gguf::Tensor> rope_factors;  // [rope_dims / 2]
  std::vector<LlamaLayerTensors> layers;
};

// invalid_argument that names the tensor, the expected and the found shape if one is missing or
// has another shape; unimplemented for a tensor of unknown role, which would change the result, or
// of an unknown type.
Result<LlamaTensors> find_llama_tensors(const gguf::File& file, const LlamaConfig& config);

// The values of a vector tensor.
std::vector<float> read_vector(const gguf::Tensor& tensor);

// The biases of products whose outputs are stacked: q, k and v; gate and up. Zeros for a part that
// has none; empty where no part has one.
struct LlamaLayerBiases {
  std::vector<float> query_key_value, attention_output, gate_up, down;
};
LlamaLayerBiases read_biases(const LlamaLayerTensors& layer);

}  // namespace terrace::inference
