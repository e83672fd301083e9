// The checksum of a block's payload: XXH3-64 over the little-endian XXH3-64 of each 16 KiB, so that
// threads, a GPU kernel and partial loads can compute it piecewise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace terrace {

constexpr std::size_t checksum_piece_bytes = 16 * 1024;

// The checksum of `payload` (any size; the last piece may be short).
std::uint64_t payload_checksum(std::span<const std::byte> payload);

// Copies `from` to `to` and returns the checksum of what was copied, in one pass: large copies are
// hashed while they are stored past the caches, small ones piece by piece while they are in them.
std::uint64_t copy_with_checksum(std::byte* to, std::span<const std::byte> from);

// The payload_checksum of memory that is filled, or read, from its beginning on: each piece is
// hashed while it is still in the caches.
class GrowingChecksum {
 public:
  GrowingChecksum() = default;
  explicit GrowingChecksum(std::span<const std::byte> payload);

  // The first `bytes` of the payload are there (never fewer than were before).
  void advance(std::size_t bytes);
  // All of it is.
  std::uint64_t finish();

 private:
  std::span<const std::byte> payload_;
  std::vector<std::uint64_t> pieces_;  // their hashes
};

// Plain XXH3-64, for headers.
std::uint64_t xxh3(std::span<const std::byte> bytes);

}  // namespace terrace
