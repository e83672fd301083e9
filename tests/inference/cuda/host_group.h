// The groups of inference/cuda/kernels/group.h on the CPU: the threads of a block one after the
// other, and what they do together over arrays.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "inference/cuda/kernels/kernel_args.h"

namespace terrace::inference::gpu {

template <unsigned size>
class HostGroup {
 public:
  template <class T>
  using PerThread = std::array<T, size>;

  HostGroup(unsigned index, unsigned index_y) : index_(index), index_y_(index_y) {}
  unsigned index() const { return index_; }
  unsigned index_y() const { return index_y_; }
  static constexpr unsigned threads() { return size; }

  template <class F>
  void each(F&& f) {
    for (unsigned thread = 0; thread < size; ++thread) f(thread);
  }
  // As the device does: by halves within a warp, then warp after warp.
  float sum(const PerThread<float>& x) const {
    float total = 0;
    for (unsigned first = 0; first < size; first += warp_threads) {
      std::array<float, warp_threads> warp;
      std::copy_n(x.begin() + first, warp_threads, warp.begin());
      for (unsigned mask = warp_threads / 2; mask > 0; mask /= 2) {
        const auto before = warp;
        for (unsigned i = 0; i < warp_threads; ++i) warp[i] = before[i] + before[i ^ mask];
      }
      total += warp[0];
    }
    return total;
  }
  void quad_max(PerThread<float>& x) {
    by_quads(x, [](float a, float b) { return std::max(a, b); });
  }
  void quad_sum(PerThread<float>& x) {
    by_quads(x, [](float a, float b) { return a + b; });
  }
  // mma.sync.m16n8k16, from the layout of fragments in group.h.
  void multiply_add(PerThread<float> (&c)[4], const PerThread<std::uint32_t> (&a)[4],
                    const PerThread<std::uint32_t> (&b)[2]) {
    float left[16][16], right[16][8];
    const auto half = [](std::uint32_t word, unsigned which) {
      return to_float(static_cast<Bf16>(which ? word >> 16 : word & 0xffffu));
    };
    each([&](unsigned lane) {
      const unsigned g = lane / 4, t = lane % 4;
      for (unsigned i = 0; i < 4; ++i)
        for (unsigned k = 0; k < 2; ++k)
          left[g + i % 2 * 8][2 * t + i / 2 * 8 + k] = half(a[i][lane], k);
      for (unsigned i = 0; i < 2; ++i)
        for (unsigned k = 0; k < 2; ++k) right[2 * t + i * 8 + k][g] = half(b[i][lane], k);
    });
    each([&](unsigned lane) {
      for (unsigned i = 0; i < 4; ++i) {
        const unsigned row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        float sum = 0;
        for (unsigned k = 0; k < 16; ++k) sum += left[row][k] * right[k][column];
        c[i][lane] += sum;
      }
    });
  }

 private:
  template <class F>
  void by_quads(PerThread<float>& x, F&& f) {
    for (const unsigned mask : {1u, 2u}) {
      const auto before = x;
      for (unsigned i = 0; i < size; ++i) x[i] = f(before[i], before[i ^ mask]);
    }
  }

  unsigned index_, index_y_;
};

}  // namespace terrace::inference::gpu
