// The groups of group.h as threads of the device.
#pragma once

#include "inference/cuda/kernels/kernel_args.h"

namespace terrace::inference::gpu {

template <class T>
struct Register {
  T value;
  __device__ __forceinline__ T& operator[](unsigned) { return value; }
  __device__ __forceinline__ const T& operator[](unsigned) const { return value; }
};

// All threads of a block.
struct BlockGroup {
  template <class T>
  using PerThread = Register<T>;

  __device__ __forceinline__ unsigned index() const { return blockIdx.x; }
  __device__ __forceinline__ unsigned index_y() const { return blockIdx.y; }
  static constexpr __device__ __forceinline__ unsigned threads() { return row_threads; }
  template <class F>
  __device__ __forceinline__ void each(F&& f) {
    f(threadIdx.x);
  }
  __device__ __forceinline__ float sum(Register<float>& x) {
    __shared__ float of_warps[row_threads / warp_threads];
    float value = x.value;
    for (int mask = warp_threads / 2; mask > 0; mask /= 2)
      value += __shfl_xor_sync(0xffffffffu, value, mask);
    if (threadIdx.x % warp_threads == 0) of_warps[threadIdx.x / warp_threads] = value;
    __syncthreads();
    value = 0;
    for (unsigned warp = 0; warp < row_threads / warp_threads; ++warp) value += of_warps[warp];
    return value;
  }
};

// A warp; a block has `warps` of them, which have nothing to do with each other.
template <unsigned warps>
struct WarpGroup {
  template <class T>
  using PerThread = Register<T>;

  __device__ __forceinline__ unsigned index() const {
    return blockIdx.x * warps + threadIdx.x / warp_threads;
  }
  __device__ __forceinline__ unsigned index_y() const { return blockIdx.y; }
  template <class F>
  __device__ __forceinline__ void each(F&& f) {
    f(threadIdx.x % warp_threads);
  }
  __device__ __forceinline__ void quad_max(Register<float>& x) {
    x.value = fmaxf(x.value, __shfl_xor_sync(0xffffffffu, x.value, 1));
    x.value = fmaxf(x.value, __shfl_xor_sync(0xffffffffu, x.value, 2));
  }
  __device__ __forceinline__ void quad_sum(Register<float>& x) {
    x.value += __shfl_xor_sync(0xffffffffu, x.value, 1);
    x.value += __shfl_xor_sync(0xffffffffu, x.value, 2);
  }
  __device__ __forceinline__ void multiply_add(Register<float> (&c)[4],
                                               const Register<std::uint32_t> (&a)[4],
                                               const Register<std::uint32_t> (&b)[2]) {
    // Volatile: it must stay where all threads of the warp come by.
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0].value), "+f"(c[1].value), "+f"(c[2].value), "+f"(c[3].value)
        : "r"(a[0].value), "r"(a[1].value), "r"(a[2].value), "r"(a[3].value), "r"(b[0].value),
          "r"(b[1].value));
  }
};

}  // namespace terrace::inference::gpu
