#include "core/checksum.h"

#include <gtest/gtest.h>

#include <vector>

namespace terrace {
namespace {

std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

TEST(PayloadChecksum, IsTheHashOfTheHashesOfThePieces) {
  const auto payload = pattern(checksum_piece_bytes * 2 + 100);
  const std::span<const std::byte> all = payload;
  std::vector<std::uint64_t> hashes = {
      xxh3(all.subspan(0, checksum_piece_bytes)),
      xxh3(all.subspan(checksum_piece_bytes, checksum_piece_bytes)),
      xxh3(all.subspan(2 * checksum_piece_bytes))};
  EXPECT_EQ(payload_checksum(payload), xxh3(std::as_bytes(std::span(hashes))));
}

TEST(PayloadChecksum, SeesEveryFlippedBit) {
  auto payload = pattern(checksum_piece_bytes + 64);
  const auto sum = payload_checksum(payload);
  for (std::size_t at :
       {std::size_t{0}, checksum_piece_bytes - 1, checksum_piece_bytes, payload.size() - 1}) {
    payload[at] ^= std::byte{0x10};
    EXPECT_NE(payload_checksum(payload), sum) << at;
    payload[at] ^= std::byte{0x10};
  }
}

TEST(CopyWithChecksum, CopiesAndAgrees) {
  const auto payload = pattern(checksum_piece_bytes * 3 + 5);
  std::vector<std::byte> copy(payload.size());
  EXPECT_EQ(copy_with_checksum(copy.data(), payload), payload_checksum(payload));
  EXPECT_EQ(copy, payload);
}

}  // namespace
}  // namespace terrace
