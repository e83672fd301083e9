// The weights of a llama model in the form that the kernels read.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/block_key.h"
#include "core/status.h"
#include "inference/cpu/linear.h"
#include "inference/cpu/team.h"
#include "inference/model/llama_tensors.h"

namespace terrace::inference {

// Matrices that share their input are one product: q, k and v; gate and up.
struct LlamaLayerWeights {
  std::vector<float> attention_norm, feed_forward_norm;
  PackedMatrix query_key_value, attention_output, gate_up, down;
  // Of the same widths as the outputs above; empty where there is none.
  std::vector<float> query_key_value_bias, attention_output_bias, gate_up_bias, down_bias;
};

// The token embedding as it is in the file: rows are expanded when they are looked up.
class EmbeddingTable {
 public:
  EmbeddingTable() = default;
  explicit EmbeddingTable(const gguf::Tensor& tensor);

  std::size_t width() const { return width_; }
  std::size_t bytes() const { return data_.size(); }
  // Writes the width() values of a token below the vocabulary's size.
  void look_up(Token token, float* out) const;

 private:
  gguf::TensorType type_{};
  std::size_t width_ = 0, row_bytes_ = 0;
  std::vector<std::byte> data_;
};

struct LlamaWeights {
  EmbeddingTable embedding;
  std::vector<LlamaLayerWeights> layers;
  std::vector<float> output_norm;
  PackedMatrix head;

  std::uint64_t bytes() const;
};

// Packs everything, on all threads of the team. `progress` is called on the calling thread with the
// fraction done. The errors of pack(), which name the tensors; resource_exhausted if memory is
// short.
Result<LlamaWeights> load_llama_weights(const LlamaTensors& tensors, const KernelTable& kernels,
                                        Compute compute, Team& team,
                                        const std::function<void(double)>& progress);

}  // namespace terrace::inference
