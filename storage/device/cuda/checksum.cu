// The checksum of payloads in device memory: one warp a piece of 16 KiB.
#include <cstdint>

#include "storage/device/cuda/checksum_kernel.h"
#include "storage/device/cuda/xxh3_warp.h"

namespace terrace::storage {
namespace {

struct GpuWarp {
  using Word = std::uint64_t;

  __device__ __forceinline__ Word thread() const { return threadIdx.x % warp_hash::warp_threads; }
  __device__ __forceinline__ Word shuffle_xor(Word word, int mask) const {
    return __shfl_xor_sync(0xffffffffu, static_cast<unsigned long long>(word), mask);
  }
  __device__ __forceinline__ Word less(Word word, Word limit) const { return word < limit; }
  __device__ __forceinline__ Word load(const std::uint8_t* piece, Word at) const {
    return *reinterpret_cast<const Word*>(piece + at);
  }
  __device__ __forceinline__ Word secret(Word at) const {
    const Word shift = (at % 8) * 8;
    const Word low = warp_hash::secret_words[at / 8] >> shift;
    return shift == 0 ? low : low | warp_hash::secret_words[at / 8 + 1] << (64 - shift);
  }
  __device__ __forceinline__ Word first_sum(Word index) const {
    return warp_hash::first_sums[index];
  }
  __device__ __forceinline__ Word low_times_high(Word word) const {
    return (word & 0xffffffffu) * (word >> 32);
  }
  __device__ __forceinline__ Word folded_product(Word a, Word b) const {
    return (a * b) ^ __umul64hi(a, b);
  }
};

}  // namespace

extern "C" __global__ void terrace_hash_pieces(const std::uint8_t* payload, std::uint64_t bytes,
                                               std::uint64_t* digests) {
  const std::uint64_t piece =
      (static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / warp_hash::warp_threads;
  // The same for all threads of a warp.
  if (piece * hash_piece_bytes >= bytes) return;
  const std::uint64_t begin = piece * hash_piece_bytes;
  const std::uint64_t rest = bytes - begin;
  const std::uint64_t digest = warp_hash::hash_piece(
      GpuWarp(), payload + begin, rest < hash_piece_bytes ? rest : hash_piece_bytes);
  if (threadIdx.x % warp_hash::warp_threads == 0) digests[piece] = digest;
}

}  // namespace terrace::storage
