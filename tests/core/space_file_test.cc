#include "core/space_file.h"

#include <gtest/gtest.h>

#include "core/bytes.h"
#include "core/checksum.h"

namespace terrace {
namespace {

SpaceDescriptor filed_space(std::uint64_t block_bytes = 64 * kib) {
  SpaceDescriptor space;
  space.model_digest[0] = 'm';
  space.numerics_id = "test";
  space.kv_dtype = "bf16";
  space.layout_id = "cpu-tile32";
  space.block_bytes = block_bytes;
  space.label = "a model for tests";
  return space;
}

std::string encoded(const SpaceDescriptor& space) {
  const auto bytes = encode_space(space);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(SpaceFile, ComesBackAsItWas) {
  SpaceDescriptor space = filed_space(123'456 * 64);
  space.tensor_parallel_rank = 1;
  space.tensor_parallel_size = 4;
  space.adapter = "lora";
  space.adapter_revision = std::string(256, 'r');
  space.tenant = "tenant";
  const auto back = decode_space(encoded(space));
  ASSERT_TRUE(back) << back.error().to_string();
  EXPECT_EQ(*back, space);
  EXPECT_EQ(space_file_name(space), space.digest().hex() + ".space");
}

TEST(SpaceFile, AnyFlippedBitOrCutIsCorruption) {
  const std::string contents = encoded(filed_space());
  for (std::size_t at = 0; at < contents.size(); ++at) {
    std::string flipped = contents;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    ASSERT_EQ(decode_space(flipped).error().code(), StatusCode::corruption);
    ASSERT_EQ(decode_space(contents.substr(0, at)).error().code(), StatusCode::corruption);
  }
}

TEST(SpaceFile, AnotherVersionIsRefused) {
  std::string contents = encoded(filed_space());
  store_le<std::uint32_t>(&contents[8], 2);
  const std::size_t body = contents.size() - 8;
  store_le<std::uint64_t>(&contents[body], xxh3(std::as_bytes(std::span(contents)).first(body)));
  EXPECT_EQ(decode_space(contents).error().code(), StatusCode::failed_precondition);
}

}  // namespace
}  // namespace terrace
