// How the bodies of kernels are written: once, for the device and for a test on the CPU.
//
// A body is a function template over a Group, the threads of one block of a launch. What every
// thread does for itself stands in group.each(); what they do together (sums, the products of
// tensor cores) is a member of the group, called by all. A value that a thread keeps from one to
// the next is a PerThread. On the device (device_group.cuh) each() runs its function once and
// PerThread is a register; on the CPU (tests/inference/cuda/host_group.h) each() is a loop over all
// threads and PerThread an array.
//
//   const unsigned index() const, threads() const;
//   void each(f)                              f(thread) for the threads of the group
//   template <T> PerThread                    value[thread]
//   float sum(PerThread<float>&)              of all threads, in a fixed order; the same for all
//   void quad_sum(x), quad_max(x)             of four neighbours, left in each of them
//   void multiply_add(c, a, b)                of each warp: c[16 x 8] += a[16 x 16] b[16 x 8]
//
// multiply_add() is mma.sync.m16n8k16 over BF16 with F32 sums (PTX ISA, "Matrix fragments for
// mma.m16n8k16"). With g = lane / 4 and t = lane % 4 a lane holds
//   a[0..3]  rows g, g+8, g, g+8; k = 2t, 2t+1 (a[0], a[1]) and 2t+8, 2t+9 (a[2], a[3])
//   b[0..1]  column g;            k = 2t, 2t+1 and 2t+8, 2t+9
//   c[0..3]  rows g, g, g+8, g+8; columns 2t, 2t+1, 2t, 2t+1
// the lower k in the lower half of each pair.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define TERRACE_KERNEL_FUNCTION __host__ __device__ __forceinline__
#define TERRACE_UNROLLED _Pragma("unroll")
#else
#include <cmath>
#define TERRACE_KERNEL_FUNCTION inline
#define TERRACE_UNROLLED
#endif

namespace terrace::inference::gpu {

using Bf16 = std::uint16_t;

struct Words4 {  // one load of 16 bytes
  std::uint32_t word[4];
};

TERRACE_KERNEL_FUNCTION float to_float(Bf16 value) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(static_cast<std::uint32_t>(value) << 16);
#else
  const std::uint32_t bits = static_cast<std::uint32_t>(value) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
#endif
}

// To the nearest, ties to even.
TERRACE_KERNEL_FUNCTION Bf16 to_bf16(float value) {
#ifdef __CUDA_ARCH__
  Bf16 result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(value));
  return result;
#else
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;  // as the device rounds what is no number
  return static_cast<Bf16>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
#endif
}

TERRACE_KERNEL_FUNCTION std::uint32_t to_pair(float low, float high) {
#ifdef __CUDA_ARCH__
  std::uint32_t result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
#else
  return to_bf16(low) | static_cast<std::uint32_t>(to_bf16(high)) << 16;
#endif
}

// 16 bytes from an address that is a multiple of 16.
TERRACE_KERNEL_FUNCTION Words4 load_words(const std::byte* from) {
#ifdef __CUDA_ARCH__
  const uint4 words = *reinterpret_cast<const uint4*>(from);
  return {{words.x, words.y, words.z, words.w}};
#else
  Words4 words;
  std::memcpy(&words, from, sizeof words);
  return words;
#endif
}

TERRACE_KERNEL_FUNCTION float power_of_two(float x) { return exp2f(x); }

constexpr float lowest = -3.402823466e38f;  // instead of minus infinity: differences stay numbers

}  // namespace terrace::inference::gpu
