// The generator of tiny models: what it writes is what the options say.
#include "tests/support/tiny_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "inference/gguf/gguf_file.h"
#include "tests/support/temp_dir.h"

namespace terrace::gguf {
namespace {

using test_support::TempDir;
using test_support::TinyModelOptions;
using test_support::TinyTokenizer;
using test_support::write_tiny_model;

std::unique_ptr<File> open_file(const std::string& path) {
  Result<std::unique_ptr<File>> file = File::open(path);
  EXPECT_TRUE(file.has_value()) << (file ? "" : file.error().to_string());
  return file ? std::move(*file) : nullptr;
}

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<float> floats(const Tensor& tensor) {
  std::vector<float> values(tensor.dims[0] * tensor.rows());
  dequantize(tensor.type, tensor.data.data(), values.size(), values.data());
  return values;
}

TEST(TinyModel, HasTheShapeOfItsOptions) {
  const TempDir dir;
  TinyModelOptions options;
  options.layers = 3;
  options.embedding = 64;
  options.feed_forward = 96;
  options.heads = 6;
  options.kv_heads = 3;
  options.head_dim = 32;
  options.tied = false;
  options.rope_freqs.assign(16, 2.0f);
  options.rope_linear_factor = 4;
  ASSERT_TRUE(write_tiny_model(options, dir.file("m.gguf")).ok());
  const auto file = open_file(dir.file("m.gguf"));
  ASSERT_TRUE(file);
  EXPECT_EQ(file->text("general.architecture"), "llama");
  EXPECT_EQ(file->unsigned_integer("llama.block_count"), 3u);
  EXPECT_EQ(file->unsigned_integer("llama.attention.key_length"), 32u);
  EXPECT_EQ(file->number("llama.rope.scaling.factor"), 4.0);
  EXPECT_EQ(file->texts("tokenizer.ggml.tokens").size(), 320u);
  EXPECT_EQ(file->texts("tokenizer.ggml.tokens")[316], "<|im_start|>");
  EXPECT_EQ(file->numbers("tokenizer.ggml.token_type").size(), 320u);
  EXPECT_EQ(file->boolean("tokenizer.ggml.add_bos_token"), false);
  EXPECT_EQ(file->tensors().size(), 1u + 3 * 9 + 1 + 1 + 1);
  const std::vector<std::uint64_t> query_dims{64, 192}, key_dims{64, 96}, down_dims{96, 64};
  EXPECT_EQ(file->tensor("blk.2.attn_q.weight")->dims, query_dims);
  EXPECT_EQ(file->tensor("blk.2.attn_k.weight")->dims, key_dims);
  EXPECT_EQ(file->tensor("blk.2.ffn_down.weight")->dims, down_dims);
  EXPECT_EQ(floats(*file->tensor("rope_freqs.weight")), options.rope_freqs);
  EXPECT_EQ(file->tensor("blk.3.attn_q.weight"), nullptr);
}

TEST(TinyModel, EqualOptionsGiveEqualBytesAndOtherSeedsOthers) {
  const TempDir dir;
  TinyModelOptions options;
  ASSERT_TRUE(write_tiny_model(options, dir.file("a")).ok());
  ASSERT_TRUE(write_tiny_model(options, dir.file("b")).ok());
  options.seed = 2;
  ASSERT_TRUE(write_tiny_model(options, dir.file("c")).ok());
  EXPECT_EQ(content(dir.file("a")), content(dir.file("b")));
  EXPECT_NE(content(dir.file("a")), content(dir.file("c")));
}

TEST(TinyModel, QuantizedTypesStayCloseToF32) {
  const TempDir dir;
  TinyModelOptions options;
  ASSERT_TRUE(write_tiny_model(options, dir.file("f32")).ok());
  const auto exact_file = open_file(dir.file("f32"));
  ASSERT_TRUE(exact_file);
  const std::vector<float> exact = floats(*exact_file->tensor("token_embd.weight"));
  // Values have standard deviation 1; errors are those of rounding to the steps of each type.
  const std::pair<TensorType, double> bounds[] = {{TensorType::f16, 3e-4},
                                                  {TensorType::bf16, 3e-3},
                                                  {TensorType::q8_0, 8e-3},
                                                  {TensorType::q4_0, 0.12},
                                                  {TensorType::q4_1, 0.1}};
  for (const auto& [type, bound] : bounds) {
    SCOPED_TRACE(to_string(type));
    options.type = type;
    ASSERT_TRUE(write_tiny_model(options, dir.file("q")).ok());
    const auto file = open_file(dir.file("q"));
    ASSERT_TRUE(file);
    ASSERT_EQ(file->tensor("token_embd.weight")->type, type);
    const std::vector<float> values = floats(*file->tensor("token_embd.weight"));
    ASSERT_EQ(values.size(), exact.size());
    double squares = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) squares += std::pow(values[i] - exact[i], 2);
    const double rms = std::sqrt(squares / static_cast<double>(exact.size()));
    EXPECT_LT(rms, bound);
    EXPECT_GT(rms, 0);
  }
}

TEST(TinyModel, TokenizersHaveTheirVocabularies) {
  const TempDir dir;
  TinyModelOptions options;
  options.tokenizer = TinyTokenizer::smollm;
  ASSERT_TRUE(write_tiny_model(options, dir.file("m")).ok());
  auto file = open_file(dir.file("m"));
  ASSERT_TRUE(file);
  EXPECT_EQ(file->text("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(file->text("tokenizer.ggml.pre"), "smollm");
  EXPECT_EQ(file->texts("tokenizer.ggml.merges")[2], "\xc4\xa0t he");

  options.tokenizer = TinyTokenizer::sentencepiece;
  ASSERT_TRUE(write_tiny_model(options, dir.file("m2")).ok());
  file = open_file(dir.file("m2"));
  ASSERT_TRUE(file);
  EXPECT_EQ(file->text("tokenizer.ggml.model"), "llama");
  EXPECT_EQ(file->texts("tokenizer.ggml.tokens")[1], "<0x00>");
  EXPECT_EQ(file->numbers("tokenizer.ggml.scores").size(), options.vocabulary);
}

TEST(TinyModel, RefusesOptionsThatContradictEachOther) {
  const TempDir dir;
  TinyModelOptions options;
  options.type = TensorType::q8_0;
  options.embedding = 48;
  EXPECT_EQ(write_tiny_model(options, dir.file("m")).code(), StatusCode::invalid_argument);
  EXPECT_EQ(write_tiny_model({}, dir.file("absent/m")).code(), StatusCode::io_error);
}

}  // namespace
}  // namespace terrace::gguf
