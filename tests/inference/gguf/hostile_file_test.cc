// Damaged files: whatever the bytes, opening and reading everything ends without a crash. Meant to
// be run under the sanitizers as well.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "inference/gguf/container.h"
#include "tests/support/gguf_writer.h"

namespace terrace::gguf {
namespace {

using test_support::GgufWriter;

const std::vector<std::string> keys = {
    "general.alignment", "u8", "i64", "text", "texts", "floats", "flag"};

GgufWriter small_model() {
  GgufWriter writer;
  writer.add<std::uint32_t>("general.alignment", 32);
  writer.add<std::uint8_t>("u8", 7);
  writer.add<std::int64_t>("i64", -1);
  writer.add<std::string>("text", "some text");
  writer.add_array<std::string>("texts", {"a", "bc", ""});
  writer.add_array<float>("floats", {1, 2, 3});
  writer.add<bool>("flag", true);
  writer.add_tensor("norm", TensorType::f32, {8}, std::string(32, 'a'));
  writer.add_tensor("matrix", TensorType::q4_0, {32, 2}, std::string(36, 'b'));
  writer.add_tensor("k", TensorType::q6_k, {256}, std::string(210, 'c'));
  return writer;
}

// Touches every byte that the file offers; returns something that depends on them.
double read_everything(const Container& container) {
  double sum = 0;
  const Metadata& metadata = container.metadata;
  for (const std::string& key : keys) {
    sum += static_cast<double>(metadata.unsigned_integer(key).value_or(0) & 0xff);
    sum += metadata.number(key).value_or(0) > 0 ? 1 : 0;
    sum += metadata.boolean(key).value_or(false) ? 1 : 0;
    for (const char c : metadata.text(key).value_or("")) sum += c;
    for (const std::string_view text : metadata.texts(key)) {
      for (const char c : text) sum += c;
    }
    sum += static_cast<double>(metadata.numbers(key).size());
    sum += static_cast<double>(metadata.unsigned_integers(key).size());
  }
  std::vector<float> row;
  for (const Tensor& tensor : container.tensors) {
    if (block_shape(tensor.type).values == 0) continue;
    EXPECT_EQ(tensor.data.size(), tensor.rows() * tensor.row_bytes());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data.data()) % 8, 0u);
    row.resize(tensor.dims[0]);
    for (std::uint64_t i = 0; i < tensor.rows(); ++i) {
      dequantize(tensor.type, tensor.data.data() + i * tensor.row_bytes(), row.size(), row.data());
      sum += row.back() > 0 ? 1 : 0;
    }
  }
  return sum;
}

struct Outcomes {
  int opened = 0, refused = 0;
};

// Reads `mutate`d copies of a small file, and everything in those that are accepted. The copies lie
// in memory of exactly their size, where AddressSanitizer sees a read past the end; behind a mapped
// file there is the rest of a page.
template <typename Mutate>
Outcomes read_mutated(int iterations, Mutate mutate) {
  const std::string original = small_model().bytes();
  Outcomes outcomes;
  for (int i = 0; i < iterations && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("iteration " + std::to_string(i));
    std::string bytes = original;
    mutate(bytes);
    const auto memory = std::make_unique<std::byte[]>(bytes.size());
    std::memcpy(memory.get(), bytes.data(), bytes.size());
    const auto container = read_container({memory.get(), bytes.size()});
    if (container) {
      EXPECT_EQ(read_everything(*container), read_everything(*container));
      ++outcomes.opened;
    } else {
      EXPECT_EQ(container.error().code(), StatusCode::invalid_argument);
      ++outcomes.refused;
    }
  }
  return outcomes;
}

TEST(HostileFile, RandomBytesInTheHeader) {
  constexpr std::uint64_t seed = 20240611;
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::size_t header = small_model().header().size();
  const Outcomes outcomes = read_mutated(100000, [&](std::string& bytes) {
    for (std::uint64_t flips = 1 + random() % 4; flips > 0; --flips) {
      bytes[random() % header] = static_cast<char>(random());
    }
  });
  EXPECT_GT(outcomes.opened, 100);
  EXPECT_GT(outcomes.refused, 1000);
}

// Each position takes each of the numbers at which arithmetic goes wrong.
TEST(HostileFile, EdgeNumbersAtEveryOffset) {
  const std::size_t header = small_model().header().size();
  const std::uint64_t size = small_model().bytes().size();
  const std::vector<std::uint64_t> edges = {
      0,          1,          2,          31,         size,       size - header,
      size + 1,   1ull << 30, 1ull << 31, 1ull << 32, 1ull << 60, 1ull << 61,
      1ull << 62, 1ull << 63, ~0ull,      ~0ull - 31, ~0ull >> 1};
  std::size_t next = 0;
  const auto all = static_cast<int>((header - 8) * edges.size());
  const Outcomes outcomes = read_mutated(all, [&](std::string& bytes) {
    store_le(bytes.data() + next / edges.size(), edges[next % edges.size()]);
    ++next;
  });
  EXPECT_GT(outcomes.opened, 100);
  EXPECT_GT(outcomes.refused, 1000);
}

TEST(HostileFile, CutAndDamaged) {
  constexpr std::uint64_t seed = 20240612;
  RecordProperty("seed", std::to_string(seed));
  std::mt19937_64 random(seed);
  const std::size_t header = small_model().header().size();
  const Outcomes outcomes = read_mutated(50000, [&](std::string& bytes) {
    bytes[random() % header] = static_cast<char>(random());
    // Counts of 0, so that some cut files are accepted and read to their ends.
    if (random() % 2 == 0) store_le(bytes.data() + 8, std::uint64_t{random() % 4});
    if (random() % 2 == 0) store_le(bytes.data() + 16, std::uint64_t{random() % 8});
    bytes.resize(random() % (bytes.size() + 1));
  });
  EXPECT_GT(outcomes.opened, 100);
  EXPECT_GT(outcomes.refused, 1000);
}

}  // namespace
}  // namespace terrace::gguf
