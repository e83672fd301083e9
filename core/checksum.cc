#include "core/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#if TERRACE_XXH3_AVX2
#include "core/xxh3_avx2.h"
#endif

#if defined(__SSE2__) && XXH_VERSION_NUMBER >= 800 && XXH_VERSION_NUMBER <= 801
#define TERRACE_FUSED_COPY 1
#include <emmintrin.h>
#else
#define TERRACE_FUSED_COPY 0
#endif

namespace terrace {

namespace {

#if TERRACE_FUSED_COPY
// Under this a copy is better left in the caches than sent past them.
constexpr std::size_t min_streamed_bytes = 64 * 1024;
constexpr std::size_t stripe_bytes = XXH_STRIPE_LEN;
static_assert(stripe_bytes == 64);

// XXH3-64 of one whole piece while it is stored past the caches: the bytes are read once, and what
// is about to be overwritten is not read at all. Each stripe is hashed and stored from registers,
// so that the checksum is that of the copy even if somebody writes to the source meanwhile. The
// loop is that of XXH3 for long inputs with its default secret; `to` is aligned to 16 bytes.
XXH64_hash_t stream_and_hash_piece(std::byte* to, const std::byte* from) {
  constexpr std::size_t secret_bytes = sizeof XXH3_kSecret;
  constexpr std::size_t stripes_a_block = (secret_bytes - stripe_bytes) / XXH_SECRET_CONSUME_RATE;
  constexpr std::size_t stripes = checksum_piece_bytes / stripe_bytes;
  static_assert(checksum_piece_bytes % stripe_bytes == 0 && stripes % stripes_a_block == 0);
  XXH_ALIGN(XXH_ACC_ALIGN) xxh_u64 accumulators[XXH_ACC_NB] = XXH3_INIT_ACC;
  __m128i lanes[stripe_bytes / sizeof(__m128i)];
  const auto* const stripe = reinterpret_cast<const xxh_u8*>(lanes);
  for (std::size_t at = 0; at < stripes; ++at) {
    XXH_PREFETCH(from + at * stripe_bytes + XXH_PREFETCH_DIST);
    for (std::size_t i = 0; i < std::size(lanes); ++i) {
      const std::size_t offset = at * stripe_bytes + i * sizeof(__m128i);
      lanes[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + offset));
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + offset), lanes[i]);
    }
    if (at + 1 == stripes) break;  // the last one counts in another way
    const std::size_t in_block = at % stripes_a_block;
    XXH3_accumulate_512(accumulators, stripe, XXH3_kSecret + in_block * XXH_SECRET_CONSUME_RATE);
    if (in_block + 1 == stripes_a_block)
      XXH3_scrambleAcc(accumulators, XXH3_kSecret + secret_bytes - stripe_bytes);
  }
  XXH3_accumulate_512(accumulators, stripe,
                      XXH3_kSecret + secret_bytes - stripe_bytes - XXH_SECRET_LASTACC_START);
  return XXH3_mergeAccs(accumulators, XXH3_kSecret + XXH_SECRET_MERGEACCS_START,
                        checksum_piece_bytes * XXH_PRIME64_1);
}
#endif

XXH64_hash_t hash(const std::byte* bytes, std::size_t count) {
#if TERRACE_XXH3_AVX2
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  if (has_avx2) return xxh3_avx2(bytes, count);
#endif
  return XXH3_64bits(bytes, count);
}

// Hashes the digests of pieces without allocating: they stream through an XXH3 state on the stack.
class PieceHasher {
 public:
  PieceHasher() { XXH3_64bits_reset(&state_); }
  void add(std::span<const std::byte> piece) { add(hash(piece.data(), piece.size())); }
  void add(XXH64_hash_t hash) { XXH3_64bits_update(&state_, &hash, sizeof hash); }
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
  std::size_t at = 0;
#if TERRACE_FUSED_COPY
  if (from.size() >= min_streamed_bytes &&
      reinterpret_cast<std::uintptr_t>(to) % sizeof(__m128i) == 0) {
    for (; at + checksum_piece_bytes <= from.size(); at += checksum_piece_bytes)
      hasher.add(stream_and_hash_piece(to + at, from.data() + at));
    _mm_sfence();  // whoever is told of the copy sees it
  }
#endif
  for (; at < from.size(); at += checksum_piece_bytes) {
    const auto piece = from.subspan(at, std::min(checksum_piece_bytes, from.size() - at));
    std::memcpy(to + at, piece.data(), piece.size());
    hasher.add(std::span<const std::byte>(to + at, piece.size()));
  }
  return hasher.finish();
}

GrowingChecksum::GrowingChecksum(std::span<const std::byte> payload) : payload_(payload) {
  pieces_.reserve((payload.size() + checksum_piece_bytes - 1) / checksum_piece_bytes);
}

void GrowingChecksum::advance(std::size_t bytes) {
  for (std::size_t at = pieces_.size() * checksum_piece_bytes; at + checksum_piece_bytes <= bytes;
       at += checksum_piece_bytes)
    pieces_.push_back(xxh3(payload_.subspan(at, checksum_piece_bytes)));
}

std::uint64_t GrowingChecksum::finish() {
  advance(payload_.size());
  const std::size_t hashed = pieces_.size() * checksum_piece_bytes;
  if (hashed < payload_.size()) pieces_.push_back(xxh3(payload_.subspan(hashed)));
  return xxh3(std::as_bytes(std::span(pieces_)));
}

std::uint64_t xxh3(std::span<const std::byte> bytes) { return hash(bytes.data(), bytes.size()); }

}  // namespace terrace
