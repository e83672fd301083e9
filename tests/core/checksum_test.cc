#include "core/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

namespace terrace {
namespace {

std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 251);
  return bytes;
}

// As XXH3's own code without vectors has it, whatever the processor has.
TEST(Xxh3, IsTheSameHashOnEveryProcessor) {
  EXPECT_EQ(xxh3({}), 0x2d06800538d394c2u);
  EXPECT_EQ(xxh3(pattern(checksum_piece_bytes)), 0x7426889d378343cdu);
  EXPECT_EQ(xxh3(pattern(checksum_piece_bytes + 1)), 0xf9ce64137022fa42u);
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

TEST(GrowingChecksum, IsThatOfTheWholeHoweverItGrew) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, checksum_piece_bytes,
                                 checksum_piece_bytes * 3, checksum_piece_bytes * 3 + 5}) {
    const auto whole = pattern(size);
    for (const std::size_t step : {std::size_t{1000}, checksum_piece_bytes, std::size_t{50'000}}) {
      std::vector<std::byte> growing(size);
      GrowingChecksum checksum(growing);
      for (std::size_t at = 0; at < size;) {
        const std::size_t bytes = std::min(step, size - at);
        std::copy_n(whole.begin() + static_cast<std::ptrdiff_t>(at), bytes,
                    growing.begin() + static_cast<std::ptrdiff_t>(at));
        checksum.advance(at += bytes);
      }
      EXPECT_EQ(checksum.finish(), payload_checksum(whole)) << size << " by " << step;
    }
  }
}

// Sizes on both sides of where copies go past the caches, aligned and not.
TEST(CopyWithChecksum, CopiesAndAgrees) {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, checksum_piece_bytes * 3 + 5, checksum_piece_bytes * 4,
        checksum_piece_bytes * 8 - 1, checksum_piece_bytes * 8 + 77}) {
    const auto payload = pattern(size + 3);
    for (const std::size_t from : {0u, 3u}) {
      for (const std::size_t to : {0u, 16u, 5u}) {
        const auto source = std::span(payload).subspan(from, size);
        std::vector<std::byte> copy(size + 32, std::byte{0xaa});
        EXPECT_EQ(copy_with_checksum(copy.data() + to, source), payload_checksum(source)) << size;
        EXPECT_TRUE(std::ranges::equal(std::span(copy).subspan(to, size), source)) << size;
        EXPECT_EQ(copy[to + size], std::byte{0xaa});
        if (to > 0) {
          EXPECT_EQ(copy[to - 1], std::byte{0xaa});
        }
      }
    }
  }
}

}  // namespace
}  // namespace terrace
