// A whole model on a stand-in for a GPU: launches, layouts, order and the arithmetic of every
// kernel, against the CPU's backend and the golden files.
#include "inference/cuda/cuda_llama.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/inference/cuda/fake_gpu.h"
#include "tests/inference/model/golden.h"
#include "tests/inference/model/model_file.h"
#include "tests/inference/model/session.h"
#include "tests/storage/cuda/fake_cuda.h"
#include "tests/support/temp_dir.h"

namespace terrace::inference::gpu {
namespace {

using testing::HasSubstr;

constexpr double tolerance = 0.02;  // of BF16: the golden files' README

std::vector<Token> some_tokens(std::size_t count, std::size_t seed = 5) {
  std::vector<Token> tokens(count);
  for (std::size_t i = 0; i < count; ++i)
    tokens[i] = static_cast<Token>((i * i * 7 + i * 13 + seed) % 77);
  return tokens;
}

std::vector<double> as_doubles(std::span<const float> values) {
  return {values.begin(), values.end()};
}

// One layer of each width that the kernels tell apart.
ModelFile model_with_heads(std::uint32_t heads, std::uint32_t kv_heads, std::uint32_t head_dim) {
  ModelFile model;
  model.integers["llama.attention.head_count"] = heads;
  model.integers["llama.attention.head_count_kv"] = kv_heads;
  model.integers["llama.attention.key_length"] = head_dim;
  model.integers["llama.attention.value_length"] = head_dim;
  for (const std::string prefix : {"blk.0.", "blk.1."}) {
    model.add_matrix(prefix + "attn_q.weight", 64, heads * head_dim);
    model.add_matrix(prefix + "attn_k.weight", 64, kv_heads * head_dim);
    model.add_matrix(prefix + "attn_v.weight", 64, kv_heads * head_dim);
    model.add_matrix(prefix + "attn_output.weight", heads * head_dim, 64);
  }
  return model;
}

class CudaLlamaTest : public testing::Test {
 protected:
  void SetUp() override { cuda::fake::reset(); }
  void TearDown() override {
    runtime_.reset();
    EXPECT_EQ(cuda::fake::live_objects(), 0u);
    EXPECT_EQ(fake::live_blas_objects(), 0u);
  }

  std::unique_ptr<gguf::File> open(const ModelFile& model) {
    return model.open(directory_.file("model.gguf"));
  }
  Result<std::unique_ptr<Llama>> load(const gguf::File& file, ModelOptions options = {}) {
    if (!runtime_) runtime_ = fake::open();
    options.threads = 2;
    return load_cuda_llama(file, options, runtime_);
  }
  std::unique_ptr<Llama> load_or_null(const gguf::File& file, const ModelOptions& options = {}) {
    auto model = load(file, options);
    EXPECT_TRUE(model) << model.error().to_string();
    return model ? std::move(*model) : nullptr;
  }
  // The logits of every token of a prompt that comes in pieces, here and on the CPU.
  void expect_agreement(const ModelFile& file, std::span<const std::size_t> pieces,
                        std::uint32_t block_tokens = 32) {
    const auto opened = open(file);
    const auto model = load_or_null(*opened, {.block_tokens = block_tokens});
    const auto on_cpu = load_or_fail(*opened, {.threads = 2});
    ASSERT_TRUE(model && on_cpu);
    Session here(*model), there(*on_cpu);
    double squares = 0;
    std::size_t count = 0;
    for (const std::size_t piece : pieces) {
      const auto ids = some_tokens(piece, count);
      const auto logits = here.feed_all(ids), expected = there.feed_all(ids);
      for (std::size_t i = 0; i < piece; ++i) {
        const double difference =
            relative_difference(as_doubles(std::span(logits).subspan(i * 77, 77)),
                                as_doubles(std::span(expected).subspan(i * 77, 77)));
        EXPECT_LT(difference, 5 * tolerance) << "token " << count + i;
        squares += difference * difference;
      }
      count += piece;
    }
    EXPECT_LT(std::sqrt(squares / static_cast<double>(count)), tolerance);
  }

  std::shared_ptr<const CudaRuntime> runtime_;
  test_support::TempDir directory_;
};

TEST_F(CudaLlamaTest, AgreesWithTheGoldenLogitsOfEveryTinyFile) {
  const auto golden = golden_json("tiny/logits.json");
  if (!golden) GTEST_SKIP() << "no golden files beside the checkout";
  for (const auto& [name, entry] : golden->items()) {
    SCOPED_TRACE(name);
    const auto file = gguf::File::open(golden_path("tiny/" + name));
    ASSERT_TRUE(file) << file.error().to_string();
    const auto model = load_or_null(**file);
    ASSERT_TRUE(model);
    const auto logits = Session(*model).feed(entry.at("ids").get<std::vector<Token>>());
    EXPECT_LT(
        relative_difference(as_doubles(logits), entry.at("last_logits").get<std::vector<double>>()),
        tolerance);
  }
}

TEST_F(CudaLlamaTest, AgreesWithTheCpuHoweverAPromptIsCut) {
  // One of them has more logits than the device holds at a time.
  const std::size_t pieces[] = {33, 1, 290, 2, 130, 1, 1, 17, 5};
  expect_agreement(ModelFile(), pieces);
  expect_agreement(ModelFile(), pieces, 64);
}

TEST_F(CudaLlamaTest, AgreesWithTheCpuForHeadsOfAllWidths) {
  const std::size_t pieces[] = {140, 1, 3};
  expect_agreement(model_with_heads(4, 1, 128), pieces);
  expect_agreement(model_with_heads(3, 3, 64), pieces);
  expect_agreement(model_with_heads(9, 3, 22), pieces);
  expect_agreement(model_with_heads(20, 1, 80), pieces);
}

TEST_F(CudaLlamaTest, AddsEveryBiasAndRotatesWhatTheFileSays) {
  ModelFile model;
  model.integers["llama.rope.dimension_count"] = 10;
  model.tensors["rope_freqs.weight"] = {{5}, gguf::TensorType::f32, 3, 0.5f};
  for (const auto& [name, width] : std::map<std::string, std::uint64_t>{{"attn_q.bias", 64},
                                                                        {"attn_v.bias", 32},
                                                                        {"attn_output.bias", 64},
                                                                        {"ffn_up.bias", 96},
                                                                        {"ffn_down.bias", 64}})
    model.tensors["blk.1." + name] = {{width}, gguf::TensorType::f32, 0, 0.5f};
  const std::size_t pieces[] = {20, 1};
  expect_agreement(model, pieces);
}

// Eight sequences behind one prefix, four of which share more; beside a prompt.
class SharedBatch {
 public:
  explicit SharedBatch(Llama& model) : model_(model), prefix_(model) {
    prefix_.feed(some_tokens(256));
    more_ = {prefix_.blocks().begin(), prefix_.blocks().end()};
    KvMemory& memory = model.kv_memory();
    const KvGeometry geometry = model.kv_geometry();
    const auto add_own = [&](std::vector<std::byte*>& blocks) {
      own_.push_back(*memory.allocate(geometry.block_bytes()));
      blocks.push_back(own_.back().get());
    };
    for (int i = 0; i < 4; ++i) add_own(more_);  // tokens 256 to 384
    compute(some_tokens(128, 9), 256, more_);
    for (std::size_t sequence = 0; sequence < 8; ++sequence) {
      auto blocks = more_;
      blocks.resize(sequence < 4 ? 12 : 8);
      const auto position = static_cast<std::uint32_t>(blocks.size()) * 32;
      add_own(blocks);
      compute(some_tokens(sequence + 1, sequence), position, blocks);
      tables_.push_back(blocks);
      positions_.push_back(position + static_cast<std::uint32_t>(sequence) + 1);
    }
  }

  std::vector<SequenceStep> steps(std::span<const Token> tokens) const {
    std::vector<SequenceStep> steps;
    for (std::size_t i = 0; i < tables_.size(); ++i)
      steps.push_back({tokens.subspan(i, 1), positions_[i], tables_[i]});
    return steps;
  }
  std::vector<float> compute(std::span<const Token> tokens, std::uint32_t position,
                             std::span<std::byte* const> blocks) {
    const SequenceStep step{tokens, position, blocks};
    return compute({&step, 1});
  }
  std::vector<float> compute(std::span<const SequenceStep> steps) {
    std::vector<float> logits(steps.size() * model_.config().vocabulary);
    const Status status = model_.forward(steps, logits);
    EXPECT_TRUE(status.ok()) << status.to_string();
    return logits;
  }

 private:
  Llama& model_;
  Session prefix_;
  std::vector<std::byte*> more_;
  std::vector<std::shared_ptr<std::byte>> own_;
  std::vector<std::vector<std::byte*>> tables_;
  std::vector<std::uint32_t> positions_;
};

TEST_F(CudaLlamaTest, SharedPrefixesAndGraphsChangeNoBit) {
  const auto file = open(model_with_heads(6, 2, 32));
  const auto tokens = some_tokens(8, 3);
  std::vector<float> alone, apart;
  {
    const auto model = load_or_null(*file, {.shared_prefixes = SharedPrefixes::apart});
    ASSERT_TRUE(model);
    SharedBatch batch(*model);
    const auto steps = batch.steps(tokens);
    apart = batch.compute(steps);
    for (const SequenceStep& step : steps) {
      const auto logits = batch.compute({&step, 1});
      alone.insert(alone.end(), logits.begin(), logits.end());
    }
  }
  EXPECT_EQ(apart, alone);
  const auto model = load_or_null(*file);
  ASSERT_TRUE(model);
  SharedBatch batch(*model);
  const auto steps = batch.steps(tokens);
  EXPECT_EQ(batch.compute(steps), alone);
  const std::size_t before = cuda::fake::graph_launches();
  EXPECT_EQ(batch.compute(steps), alone);
  EXPECT_EQ(batch.compute(steps), alone);
  EXPECT_EQ(cuda::fake::graph_launches(), before + 2);
}

TEST_F(CudaLlamaTest, FirstTokensOfABlockAreCopiedAsOnTheCpu) {
  const auto model = load_or_null(*open(model_with_heads(4, 2, 22)), {.block_tokens = 64});
  ASSERT_TRUE(model);
  const KvGeometry geometry = model->kv_geometry();
  Session session(*model);
  session.feed(some_tokens(64));
  const auto bytes_of = [&](const std::byte* block) {
    const std::byte* const at = cuda::fake::behind(reinterpret_cast<cuda::DeviceAddress>(block));
    return std::vector<std::byte>(at, at + geometry.block_bytes());
  };
  const auto source = bytes_of(session.blocks()[0]);
  // Downwards: each has the memory of the one before, which must not show.
  for (const std::uint32_t tokens : {64u, 47u, 32u, 1u}) {
    const auto block = model->kv_memory().allocate(geometry.block_bytes());
    ASSERT_TRUE(block);
    ASSERT_TRUE(model->kv_memory()
                    .copy_leading_tokens(geometry, tokens, session.blocks()[0], block->get())
                    .ok());
    std::vector<std::byte> expected(geometry.block_bytes());
    ASSERT_TRUE(host_kv_memory()
                    .copy_leading_tokens(geometry, tokens, source.data(), expected.data())
                    .ok());
    EXPECT_EQ(bytes_of(block->get()), expected) << tokens;
  }
}

TEST_F(CudaLlamaTest, SaysWhatItTakesAndRefusesWhatDoesNotFit) {
  const auto file = open(ModelFile());
  std::string notice;
  const std::size_t before = cuda::fake::allocated_bytes();
  {
    const auto model = load_or_null(*file, {.notice = [&](const std::string& line) {
      notice = line;
      EXPECT_EQ(cuda::fake::allocated_bytes(), before);
    }});
    ASSERT_TRUE(model);
    EXPECT_EQ(model->backend(), "cuda:0 (stand-in)");
    EXPECT_THAT(model->numerics_id(),
                testing::MatchesRegex("cuda\\.sm90\\.lt130000\\.bf16\\.1\\.[0-9a-f]+"));
  }
  EXPECT_THAT(notice, HasSubstr("of the memory of cuda:0 (stand-in) beside its KV (weights "));
  cuda::fake::reset({.memory_bytes = std::size_t{64} << 20});
  const auto refused = load(*file);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), StatusCode::resource_exhausted);
  EXPECT_THAT(refused.error().message(), HasSubstr("64 MiB are free"));
  EXPECT_EQ(load(*file, {.compute = Compute::f32}).error().code(), StatusCode::unimplemented);
  EXPECT_EQ(load(*open(model_with_heads(1, 1, 272))).error().code(), StatusCode::unimplemented);
}

TEST_F(CudaLlamaTest, EveryCallOfTheDriverMayFailAndNothingIsLeftBehind) {
  const auto file = open(ModelFile());
  const auto tokens = some_tokens(40);
  if (!runtime_) runtime_ = fake::open();
  const std::size_t idle = cuda::fake::live_objects();
  bool done = false;
  // A prime as the stride: every kind of call has its turn.
  for (std::int64_t nth = 0; !done; nth += nth < 60 ? 1 : 7) {
    cuda::fake::fail_call(nth);
    auto model = load(*file);
    if (model) {
      PrivateKv kv((*model)->kv_geometry(), (*model)->kv_memory());
      std::vector<float> logits(77);
      Status status = kv.reserve(64);
      for (std::uint32_t i = 0; i < 4 && status.ok(); ++i) {
        const SequenceStep step{std::span(tokens).subspan(i, 1), i, kv.blocks()};
        status = (*model)->forward({&step, 1}, logits);
      }
      done = !cuda::fake::failed();
      // A graph that cannot be made is done without.
      if (done) {
        EXPECT_TRUE(status.ok()) << status.to_string();
      }
    } else {
      EXPECT_TRUE(cuda::fake::failed()) << model.error().to_string();
    }
    model = error(StatusCode::internal, "gone");
    cuda::fake::fail_call(-1);
    EXPECT_EQ(cuda::fake::live_objects(), idle) << "call " << nth;
    EXPECT_EQ(fake::live_blas_objects(), 0u) << "call " << nth;
  }
}

}  // namespace
}  // namespace terrace::inference::gpu
