#include "inference/model/llama_tensors.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace terrace::inference {

namespace {

using Shape = std::vector<std::uint64_t>;

std::string to_text(const Shape& shape) {
  std::string text = "[";
  for (const std::uint64_t dim : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(dim);
  return text + "]";
}

// Trailing dimensions of 1 say nothing.
Shape trimmed(Shape shape) {
  while (shape.size() > 1 && shape.back() == 1) shape.pop_back();
  return shape;
}

// Finds tensors until the first one that is wrong, and remembers which ones it used.
class Finder {
 public:
  explicit Finder(const gguf::File& file) : file_(file) {}

  const Status& status() const { return status_; }

  gguf::Tensor required(const std::string& name, const Shape& shape) {
    auto found = optional(name, shape);
    if (!found && status_.ok())
      status_ = Status(StatusCode::invalid_argument,
                       "the tensor " + name + " of shape " + to_text(shape) + " is missing");
    return found.value_or(gguf::Tensor{});
  }

  std::optional<gguf::Tensor> optional(const std::string& name, const Shape& shape) {
    const gguf::Tensor* tensor = file_.tensor(name);
    if (!tensor || !status_.ok()) return std::nullopt;
    used_.insert(tensor);
    if (trimmed(tensor->dims) != trimmed(shape)) {
      status_ = Status(StatusCode::invalid_argument, "the tensor " + name + " has the shape " +
                                                         to_text(tensor->dims) + ", expected " +
                                                         to_text(shape));
      return std::nullopt;
    }
    if (gguf::block_shape(tensor->type).values == 0) {
      status_ = Status(StatusCode::unimplemented, "the tensor " + name + " is of " +
                                                      gguf::to_string(tensor->type) +
                                                      ", which is not supported");
      return std::nullopt;
    }
    if (shape.size() == 1 && gguf::block_shape(tensor->type).values != 1) {
      status_ = Status(StatusCode::unimplemented, "the vector " + name + " is quantized (" +
                                                      gguf::to_string(tensor->type) +
                                                      "), which is not supported");
      return std::nullopt;
    }
    return *tensor;
  }

  bool has(const std::string& name) const { return file_.tensor(name) != nullptr; }

  // A tensor that nobody asked for would change the result in a way not known here.
  void refuse_unused() {
    for (const gguf::Tensor& tensor : file_.tensors()) {
      if (!status_.ok()) return;
      // Written by early converters; the frequencies follow from the hyper-parameters.
      const bool redundant = tensor.name.ends_with(".attn_rot_embd.weight") ||
                             tensor.name.ends_with(".rotary_emb.inv_freq");
      if (!used_.contains(&tensor) && !redundant)
        status_ = Status(StatusCode::unimplemented,
                         "the tensor " + tensor.name + " has no known role in a llama model");
    }
  }

 private:
  const gguf::File& file_;
  std::unordered_set<const gguf::Tensor*> used_;
  Status status_;
};

// Rows [first, first + count) of a matrix, or elements of a vector.
gguf::Tensor part(const gguf::Tensor& whole, std::string_view what, std::uint64_t first,
                  std::uint64_t count) {
  gguf::Tensor result = whole;
  result.name += " (" + std::string(what) + ")";
  if (trimmed(whole.dims).size() == 1) {
    const std::size_t element_bytes = gguf::block_shape(whole.type).bytes;
    result.dims = {count};
    result.data = whole.data.subspan(first * element_bytes, count * element_bytes);
  } else {
    result.dims = {whole.dims[0], count};
    result.data = whole.data.subspan(first * whole.row_bytes(), count * whole.row_bytes());
  }
  return result;
}

void find_query_key_value(Finder& finder, const std::string& prefix, const LlamaConfig& config,
                          LlamaLayerTensors& layer) {
  const std::uint64_t embedding = config.embedding, query = config.query_width(),
                      kv = config.kv_width(), fused = query + 2 * kv;
  if (!finder.has(prefix + "attn_qkv.weight")) {
    layer.query = finder.required(prefix + "attn_q.weight", {embedding, query});
    layer.key = finder.required(prefix + "attn_k.weight", {embedding, kv});
    layer.value = finder.required(prefix + "attn_v.weight", {embedding, kv});
  } else if (const auto whole = finder.optional(prefix + "attn_qkv.weight", {embedding, fused})) {
    layer.query = part(*whole, "query", 0, query);
    layer.key = part(*whole, "key", query, kv);
    layer.value = part(*whole, "value", query + kv, kv);
  }
  layer.query_bias = finder.optional(prefix + "attn_q.bias", {query});
  layer.key_bias = finder.optional(prefix + "attn_k.bias", {kv});
  layer.value_bias = finder.optional(prefix + "attn_v.bias", {kv});
  if (const auto whole = finder.optional(prefix + "attn_qkv.bias", {fused})) {
    layer.query_bias = part(*whole, "query", 0, query);
    layer.key_bias = part(*whole, "key", query, kv);
    layer.value_bias = part(*whole, "value", query + kv, kv);
  }
}

LlamaLayerTensors find_layer(Finder& finder, const std::string& prefix, const LlamaConfig& config) {
  const std::uint64_t embedding = config.embedding, query = config.query_width(),
                      feed_forward = config.feed_forward;
  LlamaLayerTensors layer;
  layer.attention_norm = finder.required(prefix + "attn_norm.weight", {embedding});
  find_query_key_value(finder, prefix, config, layer);
  layer.attention_output = finder.required(prefix + "attn_output.weight", {query, embedding});
  layer.attention_output_bias = finder.optional(prefix + "attn_output.bias", {embedding});
  layer.feed_forward_norm = finder.required(prefix + "ffn_norm.weight", {embedding});
  layer.gate = finder.required(prefix + "ffn_gate.weight", {embedding, feed_forward});
  layer.up = finder.required(prefix + "ffn_up.weight", {embedding, feed_forward});
  layer.down = finder.required(prefix + "ffn_down.weight", {feed_forward, embedding});
  layer.gate_bias = finder.optional(prefix + "ffn_gate.bias", {feed_forward});
  layer.up_bias = finder.optional(prefix + "ffn_up.bias", {feed_forward});
  layer.down_bias = finder.optional(prefix + "ffn_down.bias", {embedding});
  return layer;
}

}  // namespace

Result<LlamaTensors> find_llama_tensors(const gguf::File& file, const LlamaConfig& config) {
  const std::uint64_t embedding = config.embedding, vocabulary = config.vocabulary;
  Finder finder(file);
  LlamaTensors tensors;
  tensors.token_embedding = finder.required("token_embd.weight", {embedding, vocabulary});
  tensors.output_norm = finder.required("output_norm.weight", {embedding});
  tensors.tied_output = !finder.has("output.weight");
  tensors.output = tensors.tied_output ? tensors.token_embedding
                                       : finder.required("output.weight", {embedding, vocabulary});
  tensors.rope_factors = finder.optional("rope_freqs.weight", {config.rope_dims / 2});
  for (std::uint32_t layer = 0; layer < config.layers && finder.status().ok(); ++layer)
    tensors.layers.push_back(find_layer(finder, "blk." + std::to_string(layer) + ".", config));
  finder.refuse_unused();
  if (!finder.status().ok()) return error(finder.status());
  return tensors;
}

LlamaLayerBiases read_biases(const LlamaLayerTensors& layer) {
  const auto stacked = [](std::initializer_list<const std::optional<gguf::Tensor>*> biases,
                          std::initializer_list<const gguf::Tensor*> matrices) {
    bool any = false;
    std::vector<float> result;
    auto matrix = matrices.begin();
    for (const std::optional<gguf::Tensor>* bias : biases) {
      any = any || bias->has_value();
      const std::vector<float> values =
          *bias ? read_vector(**bias) : std::vector<float>((*matrix)->rows());
      result.insert(result.end(), values.begin(), values.end());
      ++matrix;
    }
    return any ? result : std::vector<float>{};
  };
  return {.query_key_value = stacked({&layer.query_bias, &layer.key_bias, &layer.value_bias},
                                     {&layer.query, &layer.key, &layer.value}),
          .attention_output = stacked({&layer.attention_output_bias}, {&layer.attention_output}),
          .gate_up = stacked({&layer.gate_bias, &layer.up_bias}, {&layer.gate, &layer.up}),
          .down = stacked({&layer.down_bias}, {&layer.down})};
}

std::vector<float> read_vector(const gguf::Tensor& tensor) {
  std::vector<float> values(tensor.dims[0]);
  gguf::dequantize(tensor.type, tensor.data.data(), values.size(), values.data());
  return values;
}

}  // namespace terrace::inference
