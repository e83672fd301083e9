// XXH3-64 of one piece of a payload (core/checksum.h), by the 32 threads of a warp together: bit
// for bit what the CPU computes. Written once for both: on the GPU a Word is a number and every
// thread runs this, on the CPU (the tests) it is an array of 32 that stands for all threads.
//
// XXH3 keeps 8 sums of 64 bits. A stripe of 64 bytes adds to each of them; after 16 stripes (a
// block) the sums are scrambled. Within a block the order of stripes does not matter, so thread t
// takes the sum t % 8 of every fourth stripe, from stripe t / 8 on: 256 bytes in a row a step.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define TERRACE_WARP_FUNCTION __device__ __forceinline__
#define TERRACE_WARP_CONSTANT __constant__
#else
#define TERRACE_WARP_FUNCTION inline
#define TERRACE_WARP_CONSTANT inline constexpr
#endif

namespace terrace::storage::warp_hash {

constexpr std::uint32_t warp_threads = 32;
constexpr std::uint32_t stripe_bytes = 64;
constexpr std::uint32_t stripes_per_block = 16;
constexpr std::uint32_t block_bytes = stripe_bytes * stripes_per_block;
// Shorter inputs are hashed another way, which only the CPU does.
constexpr std::uint32_t min_piece_bytes = 241;
// Loads are of 8 bytes at multiples of 8.
constexpr std::uint32_t piece_alignment_bytes = 8;

constexpr std::uint64_t prime32_1 = 0x9E3779B1u;
constexpr std::uint64_t prime64_1 = 0x9E3779B185EBCA87ull;

// The default secret, as little-endian words, and the start of the sums.
TERRACE_WARP_CONSTANT std::uint64_t secret_words[24] = {
    0xbe4ba423396cfeb8ull, 0x1cad21f72c81017cull, 0xdb979083e96dd4deull, 0x1f67b3b7a4a44072ull,
    0x78e5c0cc4ee679cbull, 0x2172ffcc7dd05a82ull, 0x8e2443f7744608b8ull, 0x4c263a81e69035e0ull,
    0xcb00c391bb52283cull, 0xa32e531b8b65d088ull, 0x4ef90da297486471ull, 0xd8acdea946ef1938ull,
    0x3f349ce33f76faa8ull, 0x1d4f0bc7c7bbdcf9ull, 0x3159b4cd4be0518aull, 0x647378d9c97e9fc8ull,
    0xc3ebd33483acc5eaull, 0xeb6313faffa081c5ull, 0x49daf0b751dd0d17ull, 0x9e68d429265516d3ull,
    0xfca1477d58be162bull, 0xce31d07ad1b8f88full, 0x280416958f3acb45ull, 0x7e404bbbcafbd7afull,
};
TERRACE_WARP_CONSTANT std::uint64_t first_sums[8] = {
    0xC2B2AE3Du,           prime64_1,   0xC2B2AE3D27D4EB4Full, 0x165667B19E3779F9ull,
    0x85EBCA77C2B2AE63ull, 0x85EBCA77u, 0x27D4EB2F165667C5ull, prime32_1,
};
constexpr std::uint32_t scramble_secret = 128;  // offsets into the secret, in bytes
constexpr std::uint32_t last_stripe_secret = 121;
constexpr std::uint32_t merge_secret = 11;

// What `Warp` has: the type Word; thread(), each thread's number; shuffle_xor(w, mask), the word of
// the thread whose number differs in `mask`; less(w, n), 1 where w < n, else 0; load(piece, at),
// the 8 bytes at byte offset `at`; secret(at), likewise of the secret, at any offset; first_sum(i);
// low_times_high(w), of its two halves; folded_product(a, b), both halves of the 128 bits xored.
template <typename Warp>
TERRACE_WARP_FUNCTION typename Warp::Word hash_piece(const Warp& warp, const std::uint8_t* piece,
                                                     std::uint64_t bytes) {
  using Word = typename Warp::Word;
  const Word lane_bytes = (warp.thread() & 7) * 8;
  const Word group = warp.thread() >> 3;
  Word sum = warp.first_sum(warp.thread() & 7);

  // Adds the stripe at byte offset `at` where `counts` is 1, under the secret from `key` on.
  const auto accumulate = [&](Word& own, Word& neighbour, Word at, Word key, Word counts) {
    const Word data = warp.load(piece, (at + lane_bytes) * counts);
    own = own + warp.low_times_high(data ^ warp.secret(key + lane_bytes)) * counts;
    neighbour = neighbour + data * counts;
  };
  const auto add_to_sum = [&](Word own, Word neighbour) {
    Word added = own + warp.shuffle_xor(neighbour, 1);
    added = added + warp.shuffle_xor(added, 8);
    added = added + warp.shuffle_xor(added, 16);
    sum = sum + added;
  };

  const std::uint64_t blocks = (bytes - 1) / block_bytes;
  for (std::uint64_t block = 0; block < blocks; ++block) {
    Word own = group & 0, neighbour = group & 0;
#ifdef __CUDACC__
#pragma unroll
#endif
    for (std::uint32_t step = 0; step < stripes_per_block / 4; ++step) {
      const Word stripe = group + step * 4;
      accumulate(own, neighbour, stripe * stripe_bytes + block * block_bytes, stripe * 8,
                 warp.less(stripe, stripes_per_block));
    }
    add_to_sum(own, neighbour);
    sum = (sum ^ (sum >> 47) ^ warp.secret(lane_bytes + scramble_secret)) * prime32_1;
  }

  Word own = group & 0, neighbour = group & 0;
  const std::uint64_t rest = (bytes - 1 - blocks * block_bytes) / stripe_bytes;
  for (std::uint32_t step = 0; step < stripes_per_block / 4; ++step) {
    const Word stripe = group + step * 4;
    accumulate(own, neighbour, stripe * stripe_bytes + blocks * block_bytes, stripe * 8,
               warp.less(stripe, rest));
  }
  // The last stripe ends with the input, and may overlap the one before it.
  accumulate(own, neighbour, (group & 0) + (bytes - stripe_bytes), (group & 0) + last_stripe_secret,
             warp.less(group, 1));
  add_to_sum(own, neighbour);

  const Word keyed = sum ^ warp.secret(lane_bytes + merge_secret);
  Word result = warp.folded_product(keyed, warp.shuffle_xor(keyed, 1));
  result = result + warp.shuffle_xor(result, 2);
  result = result + warp.shuffle_xor(result, 4);
  result = result + bytes * prime64_1;
  result = (result ^ (result >> 37)) * 0x165667919E3779F9ull;
  return result ^ (result >> 32);
}

}  // namespace terrace::storage::warp_hash
