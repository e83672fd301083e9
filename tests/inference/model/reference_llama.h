// The judge of the tests: a llama forward pass in float64 over the dequantized weights, written
// straight from the formulas, slow, and sharing no code with what it judges but the reader of
// files.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/block_key.h"
#include "inference/gguf/gguf_file.h"

namespace terrace::inference {

class ReferenceLlama {
 public:
  explicit ReferenceLlama(const gguf::File& file);

  std::size_t vocabulary() const { return vocabulary_; }
  // The logits after each token: [tokens.size()][vocabulary].
  std::vector<std::vector<double>> logits(std::span<const Token> tokens) const;

 private:
  using Row = std::vector<double>;

  const Row& weight(const std::string& name) const { return weights_.at(name); }
  // Products of the matrix's outputs with x, plus the bias if there is one.
  Row linear(const std::string& name, const Row& x) const;
  Row normalized(const Row& x, const std::string& name) const;
  // Rotates every head of a projection.
  void rotate(Row& heads, std::size_t position) const;

  std::map<std::string, Row> weights_;
  std::size_t layers_, heads_, kv_heads_, head_dim_, rope_dims_, vocabulary_;
  double epsilon_, rope_base_, rope_linear_;
};

}  // namespace terrace::inference
