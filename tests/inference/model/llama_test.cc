// The forward pass against the reference, and what it refuses.
#include "inference/model/llama.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "inference/model/rope.h"
#include "tests/inference/model/golden.h"
#include "tests/inference/model/model_file.h"
#include "tests/inference/model/reference_llama.h"
#include "tests/inference/model/session.h"
#include "tests/support/temp_dir.h"

namespace terrace::inference {
namespace {

using testing::HasSubstr;

constexpr double f32_tolerance = 1e-4, bf16_tolerance = 0.02;

std::vector<Token> prompt(std::size_t count, Token vocabulary) {
  std::vector<Token> tokens(count);
  for (std::size_t i = 0; i < count; ++i)
    tokens[i] = static_cast<Token>((i * i * 7 + i * 13 + 5) % static_cast<std::size_t>(vocabulary));
  return tokens;
}

std::vector<double> widen(std::span<const float> values) { return {values.begin(), values.end()}; }

class LlamaTest : public testing::Test {
 protected:
  std::unique_ptr<gguf::File> open(const ModelFile& model) {
    return model.open(directory_.file("model.gguf"));
  }

  // Compares the logits of each token of a prompt, on every instruction set, in both compute types.
  void expect_agreement(const gguf::File& file, std::size_t tokens) {
    const ReferenceLlama reference(file);
    const auto ids = prompt(tokens, static_cast<Token>(reference.vocabulary()));
    const auto expected = reference.logits(ids);
    for (const Isa isa : supported_isas()) {
      for (const bool exact : {true, false}) {
        const auto model = load_or_fail(file, {.compute = exact ? Compute::f32 : Compute::bf16,
                                               .kv = exact ? KvDtype::f32 : KvDtype::bf16,
                                               .threads = 2,
                                               .isa = isa});
        if (!model) return;
        const auto logits = Session(*model).feed_all(ids);
        const std::size_t width = reference.vocabulary();
        double squares = 0;
        for (std::size_t i = 0; i < tokens; ++i) {
          const double difference =
              relative_difference(widen(std::span(logits).subspan(i * width, width)), expected[i]);
          squares += difference * difference / static_cast<double>(tokens);
          EXPECT_LT(difference, 5 * (exact ? f32_tolerance : bf16_tolerance)) << "token " << i;
        }
        EXPECT_LT(std::sqrt(squares), exact ? f32_tolerance : bf16_tolerance) << to_string(isa);
      }
    }
  }

  test_support::TempDir directory_;
};

TEST_F(LlamaTest, AgreesWithTheGoldenLogitsOfEveryTinyFile) {
  const auto golden = golden_json("tiny/logits.json");
  if (!golden) GTEST_SKIP() << "no golden files beside the checkout";
  for (const auto& [name, entry] : golden->items()) {
    SCOPED_TRACE(name);
    const auto file = gguf::File::open(golden_path("tiny/" + name));
    ASSERT_TRUE(file) << file.error().to_string();
    const auto ids = entry.at("ids").get<std::vector<Token>>();
    const auto expected = entry.at("last_logits").get<std::vector<double>>();
    for (const Isa isa : supported_isas()) {
      for (const bool exact : {true, false}) {
        const auto model = load_or_fail(**file, {.compute = exact ? Compute::f32 : Compute::bf16,
                                                 .kv = exact ? KvDtype::f32 : KvDtype::bf16,
                                                 .threads = 2,
                                                 .isa = isa});
        ASSERT_TRUE(model);
        EXPECT_LT(relative_difference(widen(Session(*model).feed(ids)), expected),
                  exact ? f32_tolerance : bf16_tolerance)
            << to_string(isa);
      }
    }
  }
}

TEST_F(LlamaTest, AgreesWithTheReferencePastSeveralChunks) {
  expect_agreement(*open(ModelFile()), 100);
}

TEST_F(LlamaTest, AddsEveryBias) {
  ModelFile model;
  for (const char* layer : {"blk.0.", "blk.1."}) {
    for (const auto& [name, width] : std::map<std::string, std::uint64_t>{{"attn_q.bias", 64},
                                                                          {"attn_k.bias", 32},
                                                                          {"attn_v.bias", 32},
                                                                          {"attn_output.bias", 64},
                                                                          {"ffn_gate.bias", 96},
                                                                          {"ffn_up.bias", 96},
                                                                          {"ffn_down.bias", 64}})
      model.tensors[layer + name] = {{width}, gguf::TensorType::f32, 0, 0.5f};
  }
  // A bias of one part of a product only.
  model.tensors.erase("blk.1.attn_k.bias");
  model.tensors.erase("blk.0.ffn_gate.bias");
  expect_agreement(*open(model), 20);
}

TEST_F(LlamaTest, SplitsAFusedQueryKeyValue) {
  ModelFile model;
  for (const char* name : {"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"})
    model.tensors.erase(name);
  model.add_matrix("blk.0.attn_qkv.weight", 64, 128);
  expect_agreement(*open(model), 20);
}

TEST_F(LlamaTest, RotatesTheFirstDimensionsOnlyWhereTheFileSaysSo) {
  ModelFile model;
  model.integers["llama.rope.dimension_count"] = 10;
  model.tensors["rope_freqs.weight"] = {{5}, gguf::TensorType::f32, 3, 0.5f};
  expect_agreement(*open(model), 20);
}

TEST_F(LlamaTest, HeadsNeedNotFillWholeVectors) {
  ModelFile model;
  model.integers["llama.attention.key_length"] = 22;
  model.integers["llama.attention.value_length"] = 22;
  for (const char* layer : {"blk.0.", "blk.1."}) {
    const std::string prefix = layer;
    model.add_matrix(prefix + "attn_q.weight", 64, 4 * 22);
    model.add_matrix(prefix + "attn_k.weight", 64, 2 * 22);
    model.add_matrix(prefix + "attn_v.weight", 64, 2 * 22);
    model.add_matrix(prefix + "attn_output.weight", 4 * 22, 64);
  }
  expect_agreement(*open(model), 40);
}

TEST_F(LlamaTest, TheFileMayBeClosedAfterLoading) {
  auto file = open(ModelFile());
  const auto model = load_or_fail(*file, {.threads = 1});
  ASSERT_TRUE(model);
  const auto ids = prompt(10, 77);
  const auto before = Session(*model).feed(ids);
  file.reset();
  EXPECT_EQ(Session(*model).feed(ids), before);
}

TEST_F(LlamaTest, ReportsProgressUpToTheEnd) {
  std::vector<double> fractions;
  const auto model = load_or_fail(
      *open(ModelFile()),
      {.threads = 2, .progress = [&](double fraction) { fractions.push_back(fraction); }});
  ASSERT_TRUE(model);
  ASSERT_FALSE(fractions.empty());
  EXPECT_TRUE(std::is_sorted(fractions.begin(), fractions.end()));
  EXPECT_EQ(fractions.back(), 1);
  EXPECT_GT(model->weight_bytes(), 2 * 77 * 64u);
}

TEST_F(LlamaTest, SaysWhatItIs) {
  const auto file = open(ModelFile());
  const auto model = load_or_fail(*file, {.block_tokens = 64, .threads = 2, .isa = Isa::portable});
  ASSERT_TRUE(model);
  EXPECT_EQ(model->isa(), Isa::portable);
  EXPECT_EQ(model->threads(), 2);
  EXPECT_EQ(model->kv_geometry(),
            (KvGeometry{.layers = 2, .kv_heads = 2, .head_dim = 16, .block_tokens = 64}));
  EXPECT_THAT(model->numerics_id(), testing::MatchesRegex("cpu\\..+\\.bf16\\.[0-9]+\\.[0-9a-f]+"));
  const auto exact = load_or_fail(*file, {.compute = Compute::f32, .threads = 2});
  ASSERT_TRUE(exact);
  EXPECT_NE(exact->numerics_id(), model->numerics_id());
}

TEST(RopeDigest, DiffersWithTheAnglesAndWithNothingElse) {
  const std::vector<double> frequencies{1.0, 0.1};
  EXPECT_EQ(rope_digest(frequencies), rope_digest(frequencies));
  EXPECT_NE(rope_digest(frequencies), rope_digest({1.0, 0.1 + 1e-5}));
}

TEST_F(LlamaTest, RefusesOptionsThatCannotBe) {
  const auto file = open(ModelFile());
  const auto code = [&](const ModelOptions& options) {
    const auto model = Llama::load(*file, options);
    return model ? StatusCode::ok : model.error().code();
  };
  for (const std::uint32_t block_tokens : {0u, 16u, 33u, 96u, 1024u})
    EXPECT_EQ(code({.block_tokens = block_tokens}), StatusCode::invalid_argument);
  EXPECT_EQ(code({.threads = -1}), StatusCode::invalid_argument);
  for (const Isa isa : {Isa::avx2, Isa::avx512, Isa::avx512_bf16})
    EXPECT_EQ(code({.isa = isa}) == StatusCode::unimplemented, !supported(isa)) << to_string(isa);
}

TEST_F(LlamaTest, AnErrorOfLoadingNamesTheFile) {
  ModelFile broken;
  broken.tensors.erase("blk.1.ffn_up.weight");
  const auto model = Llama::load(*open(broken), {});
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message(), HasSubstr("model.gguf"));
  EXPECT_THAT(model.error().message(), HasSubstr("blk.1.ffn_up.weight"));
}

TEST_F(LlamaTest, RefusesWhatItCannotCompute) {
  const auto model = load_or_fail(*open(ModelFile()), {.threads = 1});
  ASSERT_TRUE(model);
  PrivateKv kv(model->kv_geometry());
  ASSERT_TRUE(kv.reserve(512 + 32).ok());
  std::vector<float> logits(77);
  const auto expect_refusal = [&](const SequenceStep& step, std::span<float> room,
                                  const std::string& part) {
    const Status status = model->forward({&step, 1}, room);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << part;
    EXPECT_THAT(status.message(), HasSubstr(part));
  };
  const auto ids = prompt(513, 77);
  const std::span<const Token> all(ids), few = all.first(3);
  expect_refusal({all, 0, kv.blocks()}, logits,
                 "513 tokens are more than the model's context of 512");
  expect_refusal({few, 510, kv.blocks()}, logits, "513 tokens are more than");
  expect_refusal({few, 0xffffffffu, kv.blocks()}, logits, "more than the model's context");
  expect_refusal({{}, 0, kv.blocks()}, logits, "without tokens");
  for (const Token bad : {-1, 77, std::numeric_limits<Token>::max()}) {
    const std::vector<Token> tokens = {1, bad};
    expect_refusal({tokens, 0, kv.blocks()}, logits, "outside the vocabulary of 77");
  }
  expect_refusal({few, 30, kv.blocks().first(1)}, logits, "need 2");
  expect_refusal({few, 0, kv.blocks()}, std::span(logits).first(76), "need 1 x 77");
  std::byte* const null = nullptr;
  expect_refusal({few, 0, {&null, 1}}, logits, "null");
  std::byte* const crooked = kv.blocks()[0] + 4;
  expect_refusal({few, 0, {&crooked, 1}}, logits, "not aligned");
  const std::vector<SequenceStep> many(max_steps + 1, SequenceStep{few, 0, kv.blocks()});
  EXPECT_EQ(model->forward(many, {}).code(), StatusCode::invalid_argument);

  // Nothing of all that was written anywhere, and the model goes on.
  const std::size_t bytes = model->kv_geometry().block_bytes();
  for (const std::byte* block : kv.blocks())
    EXPECT_TRUE(std::all_of(block, block + bytes, [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_TRUE(model->forward({}, {}).ok());
  const SequenceStep good{all.first(512), 0, kv.blocks()};
  EXPECT_TRUE(model->forward({&good, 1}, logits).ok());
}

}  // namespace
}  // namespace terrace::inference
