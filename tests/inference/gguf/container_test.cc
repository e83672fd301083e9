// Header, tensor table and data: what is read, and every way in which they are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/inference/gguf/open_bytes.h"

namespace terrace::gguf {
namespace {

using test_support::ByteSink;
using test_support::GgufWriter;
using test_support::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto f32 = static_cast<std::uint32_t>(TensorType::f32);
constexpr auto q8_0_type = static_cast<std::uint32_t>(TensorType::q8_0);

std::string_view chars(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string refused_tensor(std::uint32_t type, const std::vector<std::uint64_t>& dims,
                           std::uint64_t offset = 0) {
  GgufWriter writer;
  writer.add_tensor("first", TensorType::f32, {16}, std::string(64, 'a'));
  writer.add_raw_tensor("t", type, dims, offset);
  return refusal(writer.bytes());
}

TEST(Container, TensorsAreFoundWithTheirBytes) {
  GgufWriter writer;
  writer.add<std::uint64_t>("general.alignment", 64);
  writer.alignment = 64;
  const std::string a(5 * 2 * 4, 'a'), b(34 * 3, 'b'), c(2, 'c');
  writer.add_tensor("a", TensorType::f32, {5, 2}, a);
  writer.add_tensor("b.weight", TensorType::q8_0, {32, 1, 3, 1}, b);
  writer.add_tensor("c", TensorType::bf16, {1}, c);
  const std::string bytes = writer.bytes();
  const auto file = must_open(bytes);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->size(), bytes.size());
  EXPECT_EQ(chars(file->bytes()), bytes);
  ASSERT_EQ(file->tensors().size(), 3u);

  const Tensor* tensor = file->tensor("b.weight");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor, &file->tensors()[1]);
  EXPECT_EQ(tensor->name, "b.weight");
  EXPECT_EQ(tensor->type, TensorType::q8_0);
  EXPECT_THAT(tensor->dims, ElementsAre(32u, 1u, 3u, 1u));
  EXPECT_EQ(tensor->rows(), 3u);
  EXPECT_EQ(tensor->row_bytes(), 34u);
  EXPECT_EQ(chars(tensor->data), b);
  EXPECT_EQ((tensor->data.data() - file->bytes().data()) % 64, 0);
  EXPECT_EQ(chars(file->tensor("a")->data), a);
  EXPECT_EQ(file->tensor("a")->row_bytes(), 20u);
  EXPECT_EQ(chars(file->tensor("c")->data), c);
  EXPECT_EQ(file->tensor("c")->rows(), 1u);
  EXPECT_EQ(file->tensor("b"), nullptr);
}

TEST(Container, Version2AndVocabulariesWithoutTensors) {
  GgufWriter writer;
  writer.version = 2;
  writer.add<std::string>("general.architecture", "llama");
  const auto file = must_open(writer.bytes());
  ASSERT_TRUE(file);
  EXPECT_EQ(file->text("general.architecture"), "llama");
  EXPECT_TRUE(file->tensors().empty());
}

// The file says what it holds even where it cannot be run; who runs it has to refuse the type.
TEST(Container, UnknownTensorTypesAreListedWithoutData) {
  GgufWriter writer;
  writer.add_raw_tensor("t", 99, {7, 3}, 0);
  writer.add_tensor("known", TensorType::f32, {2}, std::string(8, 'k'));
  const auto file = must_open(writer.bytes());
  ASSERT_TRUE(file);
  EXPECT_EQ(to_string(file->tensor("t")->type), "type 99");
  EXPECT_EQ(file->tensor("t")->row_bytes(), 0u);
  EXPECT_TRUE(file->tensor("t")->data.empty());
  EXPECT_EQ(chars(file->tensor("known")->data), std::string(8, 'k'));
}

TEST(Container, RefusesWhatIsNoGgufFile) {
  EXPECT_THAT(refusal(""), HasSubstr("is not a GGUF file"));
  EXPECT_THAT(refusal("GGU"), HasSubstr("is not a GGUF file"));
  EXPECT_THAT(refusal(std::string(100, 'x')), HasSubstr("is not a GGUF file"));
  EXPECT_THAT(refusal("GGUF"), HasSubstr("header is cut short"));
}

TEST(Container, RefusesOtherVersions) {
  GgufWriter writer;
  for (const std::uint32_t version : {0u, 1u, 4u}) {
    writer.version = version;
    EXPECT_THAT(refusal(writer.bytes()),
                HasSubstr("GGUF version " + std::to_string(version) + " is not supported"));
  }
  writer.version = 0x03000000;
  EXPECT_THAT(refusal(writer.bytes()), HasSubstr("big-endian"));
}

TEST(Container, RefusesCountsThatTheFileCannotHold) {
  for (const std::uint64_t extra : {1ull, 1000ull, 1ull << 32, 1ull << 61, ~0ull}) {
    GgufWriter metadata;
    metadata.extra_metadata = extra;
    EXPECT_THAT(refusal(metadata.bytes()), HasSubstr("metadata entries do not fit in the file"));
    GgufWriter tensors;
    tensors.extra_tensors = extra;
    EXPECT_THAT(refusal(tensors.bytes()), HasSubstr("tensors do not fit in the file"));
  }
  // A count that could be true for the size, and is not.
  GgufWriter writer;
  writer.extra_metadata = 1;
  writer.add_tensor("t", TensorType::f32, {16}, std::string(64, '\xff'));
  refusal(writer.bytes());
}

TEST(Container, RefusesOddAlignments) {
  for (const std::uint32_t alignment : {0u, 1u, 4u, 24u, 33u, 0xffffffffu}) {
    GgufWriter writer;
    writer.add<std::uint32_t>("general.alignment", alignment);
    EXPECT_THAT(refusal(writer.bytes()),
                HasSubstr("key 'general.alignment' is not a power of two"));
  }
  GgufWriter huge;
  huge.add<std::uint64_t>("general.alignment", 1ull << 63);
  EXPECT_THAT(refusal(huge.bytes()), HasSubstr("general.alignment"));
  GgufWriter text;
  text.add<std::string>("general.alignment", "32");
  EXPECT_THAT(refusal(text.bytes()), HasSubstr("general.alignment"));
  GgufWriter past_end;
  past_end.add<std::uint32_t>("general.alignment", 1u << 31);
  past_end.add_raw_tensor("t", f32, {1}, 0);
  EXPECT_THAT(refusal(past_end.bytes()), HasSubstr("tensor 't' goes past the end of the file"));
}

TEST(Container, RefusesDuplicateTensors) {
  GgufWriter writer;
  writer.add_tensor("t", TensorType::f32, {8}, std::string(32, 'a'));
  writer.add_tensor("t", TensorType::f32, {8}, std::string(32, 'b'));
  EXPECT_THAT(refusal(writer.bytes()), HasSubstr("tensor 't' is there twice at offset"));
}

TEST(Container, RefusesTensorNamesThatAreTooLong) {
  GgufWriter longest;
  longest.add_tensor(std::string(63, 'n'), TensorType::f32, {1}, std::string(4, '\0'));
  EXPECT_TRUE(must_open(longest.bytes()));
  GgufWriter longer;
  longer.add_tensor(std::string(64, 'n'), TensorType::f32, {1}, std::string(4, '\0'));
  EXPECT_THAT(refusal(longer.bytes()), HasSubstr("name of tensor 0 is cut short or too long"));
}

TEST(Container, RefusesOddDimensions) {
  EXPECT_THAT(refused_tensor(f32, {}), HasSubstr("tensor 't' has 0 dimensions, not 1 to 4"));
  EXPECT_THAT(refused_tensor(f32, {1, 1, 1, 1, 1}), HasSubstr("has 5 dimensions"));
  EXPECT_THAT(refused_tensor(f32, {4, 0}), HasSubstr("tensor 't' has a dimension of 0"));
  EXPECT_THAT(refused_tensor(q8_0_type, {48}),
              HasSubstr("tensor 't' has rows of 48 values, which is not a "
                        "multiple of the 32 in a block of Q8_0"));
}

TEST(Container, RefusesSizesThatOverflow) {
  const std::uint64_t root = 1ull << 32;
  EXPECT_THAT(refused_tensor(f32, {root, root}), HasSubstr("tensor 't' has too many values"));
  EXPECT_THAT(refused_tensor(f32, {root, root, 5}), HasSubstr("too many values"));
  EXPECT_THAT(refused_tensor(99, {root, root}), HasSubstr("too many values"));
  // The values fit in 64 bits; their bytes would be 0.
  EXPECT_THAT(refused_tensor(f32, {1ull << 62}), HasSubstr("goes past the end of the file"));
  EXPECT_THAT(refused_tensor(q8_0_type, {1ull << 63}), HasSubstr("goes past the end of the file"));
  // So would offset + bytes, or the start of the data + offset.
  EXPECT_THAT(refused_tensor(f32, {8}, ~0ull - 31), HasSubstr("goes past the end of the file"));
  EXPECT_THAT(refused_tensor(99, {8}, ~0ull - 31), HasSubstr("goes past the end of the file"));
}

TEST(Container, RefusesTensorsPastTheEnd) {
  EXPECT_THAT(refused_tensor(f32, {17}), HasSubstr("tensor 't' goes past the end of the file"));
  EXPECT_THAT(refused_tensor(f32, {9}, 32), HasSubstr("tensor 't' goes past the end of the file"));
  EXPECT_THAT(refused_tensor(f32, {1}, 64), HasSubstr("tensor 't' goes past the end of the file"));
  EXPECT_THAT(refused_tensor(f32, {1}, 4), HasSubstr("not a multiple of the alignment 32"));
}

TEST(Container, RefusesAFileCutAnywhere) {
  GgufWriter writer;
  writer.add<std::uint32_t>("u32", 7);
  writer.add<std::string>("text", "hello");
  writer.add_array<std::string>("texts", {"a", "bc"});
  writer.add_array<float>("floats", {1, 2});
  writer.add_tensor("a", TensorType::f32, {8}, std::string(32, 'a'));
  writer.add_tensor("b", TensorType::q4_0, {32, 16}, std::string(18 * 16, 'b'));
  const std::string bytes = writer.bytes();
  ASSERT_TRUE(must_open(bytes));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    SCOPED_TRACE(length);
    refusal(bytes.substr(0, length));
  }
}

TEST(File, NamesAFileThatCannotBeRead) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo(dir.file("fifo").c_str(), 0600), 0);
  for (const std::string& path : {dir.file("absent"), dir.path(), dir.file("fifo")}) {
    const auto file = File::open(path);
    ASSERT_FALSE(file.has_value()) << path;
    EXPECT_EQ(file.error().code(), StatusCode::io_error);
    EXPECT_THAT(file.error().message(), HasSubstr(path));
  }
}

// 0 if the file is refused as one that may not be read. Root may read everything, so not as root.
int open_without_rights(const std::string& path) {
  constexpr uid_t nobody = 65534;
  if (::geteuid() == 0 && ::setuid(nobody) != 0) return 2;
  const auto file = File::open(path);
  return !file && file.error().code() == StatusCode::io_error &&
                 file.error().message() == path + ": Permission denied"
             ? 0
             : 1;
}

TEST(FileDeathTest, NamesAFileThatMayNotBeRead) {
  const TempDir dir;
  const std::string path = dir.file("secret.gguf");
  ASSERT_TRUE(test_support::write_file(path, GgufWriter().bytes()).ok());
  ASSERT_EQ(::chmod(path.c_str(), 0), 0);
  EXPECT_EXIT(std::_Exit(open_without_rights(path)), ::testing::ExitedWithCode(0), "");
}

TEST(File, StaysReadableWhenItsNameIsGone) {
  const TempDir dir;
  const std::string path = dir.file("m.gguf");
  GgufWriter writer;
  writer.add<std::string>("k", "value");
  ASSERT_TRUE(writer.write(path).ok());
  const auto file = File::open(path);
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ((*file)->path(), path);
  ASSERT_EQ(::unlink(path.c_str()), 0);
  EXPECT_EQ((*file)->text("k"), "value");
}

TEST(File, OpensRealVocabularies) {
  const std::string vocabularies = std::string(TERRACE_SHARED_DIR) + "/reference/golden/vocab/";
  if (::access(vocabularies.c_str(), R_OK) != 0) GTEST_SKIP() << vocabularies << " is not there";
  const auto bpe = File::open(vocabularies + "ggml-vocab-llama-bpe.gguf");
  ASSERT_TRUE(bpe.has_value()) << bpe.error().to_string();
  EXPECT_EQ((*bpe)->texts("tokenizer.ggml.tokens").size(), 128256u);
  EXPECT_EQ((*bpe)->texts("tokenizer.ggml.tokens")[128000], "<|begin_of_text|>");
  EXPECT_EQ((*bpe)->unsigned_integer("tokenizer.ggml.bos_token_id"), 128000u);
  EXPECT_TRUE((*bpe)->tensors().empty());
  const auto sentencepiece = File::open(vocabularies + "ggml-vocab-llama-spm.gguf");
  ASSERT_TRUE(sentencepiece.has_value()) << sentencepiece.error().to_string();
  EXPECT_EQ((*sentencepiece)->numbers("tokenizer.ggml.scores").size(), 32000u);
}

// A string just over the limit in a (sparse) file that really is as large.
TEST(File, LimitsHoldWhereTheFileIsLargeEnough) {
  const TempDir dir;
  const std::string path = dir.file("sparse.gguf");
  GgufWriter writer;
  writer.add_raw("k", 8, ByteSink().put<std::uint64_t>((1u << 30) + 1u).bytes());
  ASSERT_TRUE(writer.write(path).ok());
  ASSERT_EQ(::truncate(path.c_str(), (1ll << 30) + 4096), 0);
  const auto file = File::open(path);
  ASSERT_FALSE(file.has_value());
  EXPECT_THAT(file.error().message(), HasSubstr("is over the limit of 1 GiB"));
}

}  // namespace
}  // namespace terrace::gguf
