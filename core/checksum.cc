#include "core/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace terrace {

namespace {

// Hashes the digests of pieces without allocating: they stream through an XXH3 state on the stack.
class PieceHasher {
 public:
  PieceHasher() { XXH3_64bits_reset(&state_); }
  void add(std::span<const std::byte> piece) {
    const XXH64_hash_t hash = XXH3_64bits(piece.data(), piece.size());
    XXH3_64bits_update(&state_, &hash, sizeof hash);
  }
  std::uint64_t finish() { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

}  // namespace

std::uint64_t payload_checksum(std::span<const std::byte> payload) {
  PieceHasher hasher;
  for (std::size_t at = 0; at < payload.size(); at += checksum_piece_bytes)
    hasher.add(payload.subspan(at, std::min(checksum_piece_bytes, payload.size() - at)));
  return hasher.finish();
}

std::uint64_t copy_with_checksum(std::byte* to, std::span<const std::byte> from) {
  PieceHasher hasher;
  for (std::size_t at = 0; at < from.size(); at += checksum_piece_bytes) {
    const auto piece = from.subspan(at, std::min(checksum_piece_bytes, from.size() - at));
    std::memcpy(to + at, piece.data(), piece.size());
    hasher.add({to + at, piece.size()});
  }
  return hasher.finish();
}

std::uint64_t xxh3(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace terrace
