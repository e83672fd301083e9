// The promise that the cache rests on: the bits of a token's KV and logits depend on its prefix
// alone, not on how the prompt was cut, batched, spread over threads or placed in memory.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "tests/inference/model/model_file.h"
#include "tests/inference/model/session.h"
#include "tests/support/temp_dir.h"

namespace terrace::inference {
namespace {

struct Arithmetic {
  Isa isa;
  Compute compute;
  KvDtype kv;
};

std::string name_of(const testing::TestParamInfo<Arithmetic>& info) {
  return std::string(to_string(info.param.isa)) + "_" + to_string(info.param.compute) + "_kv_" +
         to_string(info.param.kv);
}

std::vector<Arithmetic> all_arithmetics() {
  std::vector<Arithmetic> all;
  for (const Isa isa : supported_isas())
    for (const Compute compute : {Compute::bf16, Compute::f32})
      for (const KvDtype kv : {KvDtype::bf16, KvDtype::f32}) all.push_back({isa, compute, kv});
  return all;
}

class BitIdentity : public testing::TestWithParam<Arithmetic> {
 protected:
  // Quantized, so that packed weights take part; three query heads share a kv head.
  static constexpr Token vocabulary = 77;
  static constexpr std::size_t length = 150;

  BitIdentity() {
    ModelFile file;
    file.integers["llama.attention.head_count"] = 6;
    file.integers["llama.attention.key_length"] = 32;
    file.integers["llama.attention.value_length"] = 32;
    file.integers["llama.context_length"] = 2048;
    for (const char* layer : {"blk.0.", "blk.1."}) {
      const std::string prefix = layer;
      file.add_matrix(prefix + "attn_q.weight", 64, 6 * 32);
      file.add_matrix(prefix + "attn_k.weight", 64, 2 * 32);
      file.add_matrix(prefix + "attn_v.weight", 64, 2 * 32);
      file.add_matrix(prefix + "attn_output.weight", 6 * 32, 64);
      file.tensors[prefix + "ffn_gate.weight"].type = gguf::TensorType::q4_1;
      file.tensors[prefix + "ffn_up.weight"].type = gguf::TensorType::q8_0;
      file.tensors[prefix + "ffn_down.weight"].type = gguf::TensorType::q4_0;
    }
    file_ = file.open(directory_.file("model.gguf"));
    std::mt19937 random(11);
    for (std::size_t i = 0; i < length; ++i)
      ids_.push_back(static_cast<Token>(random() % vocabulary));
  }

  std::unique_ptr<Llama> load(int threads, std::uint32_t block_tokens = 32) {
    const Arithmetic& a = GetParam();
    return load_or_fail(*file_, {.compute = a.compute,
                                 .kv = a.kv,
                                 .block_tokens = block_tokens,
                                 .threads = threads,
                                 .isa = a.isa});
  }

  std::span<const Token> ids(std::size_t begin, std::size_t end) const {
    return std::span(ids_).subspan(begin, end - begin);
  }

  // Compares bytes: NaN equals itself, and -0 is not 0.
  template <typename A, typename B>
  static bool same_bits(const A& a, const B& b) {
    return std::size(a) == std::size(b) &&
           std::memcmp(std::data(a), std::data(b), std::size(a) * sizeof(*std::data(a))) == 0;
  }
  static void expect_same_kv(const Llama& model, const Session& a, const Session& b) {
    ASSERT_EQ(a.position(), b.position());
    for (std::size_t i = 0; i < a.blocks().size(); ++i)
      EXPECT_EQ(std::memcmp(a.blocks()[i], b.blocks()[i], model.kv_geometry().block_bytes()), 0)
          << "block " << i;
  }

  test_support::TempDir directory_;
  std::unique_ptr<gguf::File> file_;
  std::vector<Token> ids_;
};

TEST_P(BitIdentity, WhereverThePromptIsCut) {
  const auto model = load(2);
  ASSERT_TRUE(model);
  Session whole(*model);
  const auto expected = whole.feed(ids_);
  for (const std::size_t cut : {1u,  2u,  7u,  8u,  15u,  16u,  17u,  31u,  32u,  33u,
                                48u, 63u, 64u, 65u, 100u, 127u, 128u, 129u, 148u, 149u}) {
    Session session(*model);
    session.feed(ids(0, cut));
    EXPECT_TRUE(same_bits(session.feed(ids(cut, length)), expected)) << "cut at " << cut;
    expect_same_kv(*model, session, whole);
  }
}

TEST_P(BitIdentity, TokenByToken) {
  const auto model = load(2);
  ASSERT_TRUE(model);
  Session whole(*model);
  const auto expected = whole.feed_all(ids_);
  Session session(*model);
  for (std::size_t i = 0; i < length; ++i)
    EXPECT_TRUE(same_bits(session.feed(ids(i, i + 1)),
                          std::span(expected).subspan(i * vocabulary, vocabulary)))
        << "token " << i;
  expect_same_kv(*model, session, whole);
}

TEST_P(BitIdentity, WhateverComesAfter) {
  const auto model = load(2);
  ASSERT_TRUE(model);
  const auto expected = Session(*model).feed_all(ids_);
  for (const std::size_t end : {1u, 20u, 33u, 149u})
    EXPECT_TRUE(same_bits(Session(*model).feed(ids(0, end)),
                          std::span(expected).subspan((end - 1) * vocabulary, vocabulary)));
}

TEST_P(BitIdentity, WhoeverElseIsInTheBatch) {
  const auto model = load(2);
  ASSERT_TRUE(model);
  // Sequences of several lengths, some new and some decoding, in one call; then each of them alone.
  const std::vector<std::pair<std::size_t, std::size_t>> parts = {
      {0, 1}, {64, 65}, {0, 150}, {33, 34}, {100, 140}, {31, 32}, {149, 150}, {5, 9}};
  std::vector<std::unique_ptr<Session>> together, alone;
  std::vector<SequenceStep> steps;
  for (const auto& [begin, end] : parts) {
    for (auto* sessions : {&together, &alone}) {
      sessions->push_back(std::make_unique<Session>(*model));
      if (begin > 0) sessions->back()->feed(ids(0, begin));
    }
  }
  for (std::size_t i = 0; i < parts.size(); ++i)
    steps.push_back(together[i]->step(ids(parts[i].first, parts[i].second)));
  std::vector<float> logits(parts.size() * vocabulary);
  ASSERT_TRUE(model->forward(steps, logits).ok());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto [begin, end] = parts[i];
    together[i]->advance(end - begin);
    EXPECT_TRUE(same_bits(alone[i]->feed(ids(begin, end)),
                          std::span(logits).subspan(i * vocabulary, vocabulary)))
        << "sequence " << i;
    expect_same_kv(*model, *together[i], *alone[i]);
  }
}

TEST_P(BitIdentity, HoweverManyThreads) {
  const auto one = load(1);
  ASSERT_TRUE(one);
  Session expected(*one);
  const auto prefill = expected.feed(ids(0, 149));
  const auto decode = expected.feed(ids(149, 150));
  for (const int threads : {2, 3, 5}) {
    const auto model = load(threads);
    ASSERT_TRUE(model);
    ASSERT_EQ(model->threads(), threads);
    Session session(*model);
    EXPECT_TRUE(same_bits(session.feed(ids(0, 149)), prefill)) << threads;
    EXPECT_TRUE(same_bits(session.feed(ids(149, 150)), decode)) << threads;
    expect_same_kv(*model, session, expected);
  }
}

TEST_P(BitIdentity, WhateverTheBlockSize) {
  const auto small = load(2), large = load(2, 64);
  ASSERT_TRUE(small && large);
  Session a(*small), b(*large);
  EXPECT_TRUE(same_bits(a.feed(ids(0, 149)), b.feed(ids(0, 149))));
  EXPECT_TRUE(same_bits(a.feed(ids(149, 150)), b.feed(ids(149, 150))));
}

TEST_P(BitIdentity, LongerThanOnePass) {
  const auto model = load(2);
  ASSERT_TRUE(model);
  std::vector<Token> long_prompt;
  while (long_prompt.size() < max_pass_tokens + 100)
    long_prompt.push_back(static_cast<Token>(long_prompt.size() * 31 % vocabulary));
  const std::span<const Token> all(long_prompt);
  Session whole(*model), cut(*model);
  const auto expected = whole.feed(all);
  cut.feed(all.first(77));
  EXPECT_TRUE(same_bits(cut.feed(all.subspan(77)), expected));
  expect_same_kv(*model, cut, whole);

  // Two of them in one call: the second begins in the middle of a pass.
  Session first(*model), second(*model);
  const std::vector<SequenceStep> steps = {first.step(all), second.step(all)};
  std::vector<float> logits(2 * vocabulary);
  ASSERT_TRUE(model->forward(steps, logits).ok());
  EXPECT_TRUE(same_bits(std::span(logits).first(vocabulary), expected));
  EXPECT_TRUE(same_bits(std::span(logits).subspan(vocabulary), expected));
}

TEST_P(BitIdentity, FromAPrefixThatWasCopied) {
  const auto model = load(2);
  ASSERT_TRUE(model);
  Session source(*model), whole(*model);
  source.feed(ids_);
  // The same first 40 tokens, then others: the second block's tail holds what another sequence
  // computed, and is written over as far as the new tokens go.
  std::vector<Token> other(ids_.begin(), ids_.begin() + 40);
  for (Token i = 0; i < 9; ++i) other.push_back(i);
  const auto expected = whole.feed(other);
  Session reused(*model);
  reused.copy_prefix(source, 40);
  EXPECT_TRUE(same_bits(reused.feed(std::span(other).subspan(40)), expected));
}

TEST_P(BitIdentity, WhateverLiesInBlocksBeyondTheTokens) {
  const auto model = load(2);
  ASSERT_TRUE(model);
  const auto expected = Session(*model).feed(ids(0, 32));
  PrivateKv kv(model->kv_geometry());
  ASSERT_TRUE(kv.reserve(96).ok());
  const std::size_t bytes = model->kv_geometry().block_bytes();
  for (std::size_t i = 1; i < 3; ++i) std::memset(kv.blocks()[i], 0xff, bytes);  // NaN everywhere
  const SequenceStep step{.tokens = ids(0, 32), .first_position = 0, .blocks = kv.blocks()};
  std::vector<float> logits(vocabulary);
  ASSERT_TRUE(model->forward({&step, 1}, logits).ok());
  EXPECT_TRUE(same_bits(logits, expected));
  // Nor is anything written there.
  for (std::size_t i = 1; i < 3; ++i)
    EXPECT_TRUE(std::all_of(kv.blocks()[i], kv.blocks()[i] + bytes,
                            [](std::byte b) { return b == std::byte{0xff}; }));
}

INSTANTIATE_TEST_SUITE_P(Every, BitIdentity, testing::ValuesIn(all_arithmetics()), name_of);

TEST(Numerics, EqualIdsGiveEqualBits) {
  const test_support::TempDir directory;
  const auto file = ModelFile().open(directory.file("model.gguf"));
  for (const Compute compute : {Compute::bf16, Compute::f32}) {
    std::map<std::string, std::vector<float>> by_id;
    for (const Isa isa : supported_isas()) {
      const auto model = load_or_fail(*file, {.compute = compute, .threads = 2, .isa = isa});
      ASSERT_TRUE(model);
      std::vector<Token> ids(70);
      for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<Token>(i * 5 % 77);
      const auto logits = Session(*model).feed_all(ids);
      const auto [found, inserted] = by_id.emplace(model->numerics_id(), logits);
      if (!inserted) {
        EXPECT_EQ(found->second, logits) << to_string(isa);
      }
    }
  }
}

}  // namespace
}  // namespace terrace::inference
