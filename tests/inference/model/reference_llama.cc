#include "tests/inference/model/reference_llama.h"

#include <algorithm>
#include <cmath>

namespace terrace::inference {

ReferenceLlama::ReferenceLlama(const gguf::File& file) {
  for (const gguf::Tensor& tensor : file.tensors()) {
    std::size_t count = 1;
    for (const auto dim : tensor.dims) count *= dim;
    std::vector<float> values(count);
    gguf::dequantize(tensor.type, tensor.data.data(), count, values.data());
    weights_[tensor.name] = Row(values.begin(), values.end());
  }
  const auto integer = [&](const char* key, std::size_t fallback) {
    return static_cast<std::size_t>(file.unsigned_integer(key).value_or(fallback));
  };
  layers_ = integer("llama.block_count", 0);
  heads_ = integer("llama.attention.head_count", 0);
  kv_heads_ = integer("llama.attention.head_count_kv", heads_);
  const std::size_t embedding = integer("llama.embedding_length", 0);
  head_dim_ = integer("llama.attention.key_length", embedding / heads_);
  rope_dims_ = integer("llama.rope.dimension_count", head_dim_);
  vocabulary_ = weight("token_embd.weight").size() / embedding;
  epsilon_ = file.number("llama.attention.layer_norm_rms_epsilon").value();
  rope_base_ = file.number("llama.rope.freq_base").value_or(10000);
  rope_linear_ = file.number("llama.rope.scaling.factor").value_or(1);
}

ReferenceLlama::Row ReferenceLlama::linear(const std::string& name, const Row& x) const {
  const Row& w = weight(name + ".weight");
  Row y(w.size() / x.size());
  for (std::size_t out = 0; out < y.size(); ++out)
    for (std::size_t in = 0; in < x.size(); ++in) y[out] += w[out * x.size() + in] * x[in];
  if (const auto bias = weights_.find(name + ".bias"); bias != weights_.end())
    for (std::size_t out = 0; out < y.size(); ++out) y[out] += bias->second[out];
  return y;
}

ReferenceLlama::Row ReferenceLlama::normalized(const Row& x, const std::string& name) const {
  double squares = 0;
  for (const double value : x) squares += value * value;
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + epsilon_);
  Row y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * weight(name)[i];
  return y;
}

void ReferenceLlama::rotate(Row& heads, std::size_t position) const {
  const auto factors = weights_.find("rope_freqs.weight");
  for (std::size_t head = 0; head < heads.size(); head += head_dim_) {
    for (std::size_t i = 0; i < rope_dims_ / 2; ++i) {
      double angle =
          static_cast<double>(position) *
          std::pow(rope_base_, -2.0 * static_cast<double>(i) / static_cast<double>(rope_dims_)) /
          rope_linear_;
      if (factors != weights_.end()) angle /= factors->second[i];
      double& even = heads[head + 2 * i];
      double& odd = heads[head + 2 * i + 1];
      const double x = even, y = odd;
      even = x * std::cos(angle) - y * std::sin(angle);
      odd = x * std::sin(angle) + y * std::cos(angle);
    }
  }
}

std::vector<std::vector<double>> ReferenceLlama::logits(std::span<const Token> tokens) const {
  std::vector<std::vector<Row>> keys(layers_), values(layers_);  // [layer][token]
  std::vector<Row> result;
  for (std::size_t position = 0; position < tokens.size(); ++position) {
    const Row& table = weight("token_embd.weight");
    const std::size_t embedding = table.size() / vocabulary_;
    const auto start = table.begin() + static_cast<std::ptrdiff_t>(
                                           static_cast<std::size_t>(tokens[position]) * embedding);
    Row x(start, start + static_cast<std::ptrdiff_t>(embedding));
    for (std::size_t layer = 0; layer < layers_; ++layer) {
      const std::string prefix = "blk." + std::to_string(layer) + ".";
      Row h = normalized(x, prefix + "attn_norm.weight");
      Row query, key, value;
      if (weights_.contains(prefix + "attn_qkv.weight")) {
        const Row fused = linear(prefix + "attn_qkv", h);
        const auto q_end = fused.begin() + static_cast<std::ptrdiff_t>(heads_ * head_dim_);
        const auto k_end = q_end + static_cast<std::ptrdiff_t>(kv_heads_ * head_dim_);
        query.assign(fused.begin(), q_end);
        key.assign(q_end, k_end);
        value.assign(k_end, fused.end());
      } else {
        query = linear(prefix + "attn_q", h);
        key = linear(prefix + "attn_k", h);
        value = linear(prefix + "attn_v", h);
      }
      rotate(query, position);
      rotate(key, position);
      keys[layer].push_back(key);
      values[layer].push_back(value);

      Row attended(heads_ * head_dim_);
      for (std::size_t head = 0; head < heads_; ++head) {
        const std::size_t kv = head / (heads_ / kv_heads_) * head_dim_;
        Row scores(position + 1);
        for (std::size_t t = 0; t <= position; ++t) {
          for (std::size_t d = 0; d < head_dim_; ++d)
            scores[t] += query[head * head_dim_ + d] * keys[layer][t][kv + d];
          scores[t] /= std::sqrt(static_cast<double>(head_dim_));
        }
        const double highest = *std::max_element(scores.begin(), scores.end());
        double sum = 0;
        for (double& score : scores) sum += score = std::exp(score - highest);
        for (std::size_t t = 0; t <= position; ++t)
          for (std::size_t d = 0; d < head_dim_; ++d)
            attended[head * head_dim_ + d] += scores[t] / sum * values[layer][t][kv + d];
      }
      const Row projected = linear(prefix + "attn_output", attended);
      for (std::size_t i = 0; i < embedding; ++i) x[i] += projected[i];

      h = normalized(x, prefix + "ffn_norm.weight");
      Row gate = linear(prefix + "ffn_gate", h);
      const Row up = linear(prefix + "ffn_up", h);
      for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
      const Row down = linear(prefix + "ffn_down", gate);
      for (std::size_t i = 0; i < embedding; ++i) x[i] += down[i];
    }
    const bool untied = weights_.contains("output.weight");
    result.push_back(linear(untied ? "output" : "token_embd", normalized(x, "output_norm.weight")));
  }
  return result;
}

}  // namespace terrace::inference
