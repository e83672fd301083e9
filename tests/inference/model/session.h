// One sequence with KV of its own: what the tests drive a model with.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "inference/model/llama.h"
#include "inference/model/private_kv.h"

namespace terrace::inference {

// Loads, or fails the test and returns null.
inline std::unique_ptr<Llama> load_or_fail(const gguf::File& file, const ModelOptions& options) {
  auto model = Llama::load(file, options);
  if (!model) {
    ADD_FAILURE() << model.error().to_string();
    return nullptr;
  }
  return std::move(*model);
}

// Those that this processor has, portable first.
inline std::vector<Isa> supported_isas() {
  std::vector<Isa> found;
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16})
    if (supported(isa)) found.push_back(isa);
  return found;
}

class Session {
 public:
  explicit Session(Llama& model) : model_(model), kv_(model.kv_geometry(), model.kv_memory()) {}

  SequenceStep step(std::span<const Token> tokens) {
    EXPECT_TRUE(kv_.reserve(position_ + tokens.size()).ok());
    return {.tokens = tokens, .first_position = position_, .blocks = kv_.blocks()};
  }
  void advance(std::size_t tokens) { position_ += static_cast<std::uint32_t>(tokens); }

  // The logits after the last of `tokens`.
  std::vector<float> feed(std::span<const Token> tokens) {
    std::vector<float> logits(model_.config().vocabulary);
    const SequenceStep next = step(tokens);
    const Status status = model_.forward({&next, 1}, logits);
    EXPECT_TRUE(status.ok()) << status.to_string();
    advance(tokens.size());
    return logits;
  }
  // The logits after each of them: [tokens.size()][vocabulary].
  std::vector<float> feed_all(std::span<const Token> tokens) {
    std::vector<float> logits(tokens.size() * model_.config().vocabulary);
    const Status status = model_.forward_all_logits(step(tokens), logits);
    EXPECT_TRUE(status.ok()) << status.to_string();
    advance(tokens.size());
    return logits;
  }

  // Takes over the first `tokens` tokens of another sequence by copying whole blocks, the later
  // tokens of the last one included.
  void copy_prefix(Session& other, std::size_t tokens) {
    ASSERT_TRUE(kv_.reserve(tokens).ok());
    const std::size_t bytes = model_.kv_geometry().block_bytes();
    for (std::size_t i = 0; i < kv_.blocks().size(); ++i)
      std::copy_n(other.kv_.blocks()[i], bytes, kv_.blocks()[i]);
    position_ = static_cast<std::uint32_t>(tokens);
  }

  std::span<std::byte* const> blocks() const { return kv_.blocks(); }
  std::uint32_t position() const { return position_; }

 private:
  Llama& model_;
  PrivateKv kv_;
  std::uint32_t position_ = 0;
};

}  // namespace terrace::inference
