// Packed weights to what a step multiplies. The values are those of the expanded weight rounded
// to BF16, bit for bit.
#pragma once

namespace terrace::inference {
namespace {

// Rounds to BF16 by Veltkamp's splitting: three operations that share the work of both kinds of
// floating-point unit. Equals rounding to nearest even wherever x * 65537 neither overflows nor
// underflows; expanded 4-bit and 8-bit weights are multiples of 2^-24 below 2^21.
TERRACE_INLINE Vec round_weights(Vec x) {
  const Vec scaled = x * splat(65537.0f);
  return scaled + (x - scaled);
}

#if !TERRACE_PAIRED_WEIGHTS

using StepPairs = StepBf16;  // no instruction for pairs: never asked for

// Unpackers walk a panel block by block (32 k): begin() reads the scales of a block, weights<I>()
// gives the vector of its I-th step.
template <WeightFormat Format>
class Unpacker {
 public:
  using Step = StepF32;
  static constexpr int steps = 32;

  TERRACE_INLINE void open(const std::byte* panel, std::size_t inputs) {
    scales_ = panel;
    values_ = panel + scale_bytes(Format, inputs);
  }
  TERRACE_INLINE void begin() {
    const Vec scale = load_f16(scales_);
    scales_ += 32;
    if constexpr (Format == WeightFormat::q8_0) {
      scale_[0] = scale;
    } else {
      if constexpr (Format == WeightFormat::q4_1) {
        offset_ = load_f16(scales_);
        scales_ += 32;
      } else {
        offset_ = scale * splat(-8.0f);
      }
      TERRACE_UNROLL for (int j = 0; j < 8; ++j) scale_[j] = scale * splat(1.0f / units_[j]);
    }
  }
  template <int I>
  TERRACE_INLINE Vec weights() const {
    if constexpr (Format == WeightFormat::q8_0) {
      return round_weights(load_i8(values_ + I * 16) * scale_[0]);
    } else {
      return round_weights(mul_add(nibbles<I % 8>(values_ + I / 8 * 64), scale_[I % 8], offset_));
    }
  }
  TERRACE_INLINE void end() { values_ += Format == WeightFormat::q8_0 ? 512 : 256; }

 private:
  static constexpr float units_[8] = {nibble_unit<0>(), nibble_unit<1>(), nibble_unit<2>(),
                                      nibble_unit<3>(), nibble_unit<4>(), nibble_unit<5>(),
                                      nibble_unit<6>(), nibble_unit<7>()};
  const std::byte *scales_, *values_;
  Vec scale_[8], offset_;
};

template <>
class Unpacker<WeightFormat::bf16> {
 public:
  using Step = StepBf16;
  static constexpr int steps = 16;

  TERRACE_INLINE void open(const std::byte* panel, std::size_t) { values_ = panel; }
  TERRACE_INLINE void begin() {}
  template <int I>
  TERRACE_INLINE Pairs weights() const {
    return load_pairs(values_ + I * 64);
  }
  TERRACE_INLINE void end() { values_ += steps * 64; }

 private:
  const std::byte* values_;
};

}  // namespace
}  // namespace terrace::inference

#else

}  // namespace
}  // namespace terrace::inference

#include "inference/cpu/kernels/paired.h"

#endif

namespace terrace::inference {
namespace {

template <>
class Unpacker<WeightFormat::f32> {
 public:
  using Step = StepF32;
  static constexpr int steps = 32;

  TERRACE_INLINE void open(const std::byte* panel, std::size_t) { values_ = panel; }
  TERRACE_INLINE void begin() {}
  template <int I>
  TERRACE_INLINE Vec weights() const {
    return load(reinterpret_cast<const float*>(values_ + I * 64));
  }
  TERRACE_INLINE void end() { values_ += steps * 64; }

 private:
  const std::byte* values_;
};

TERRACE_INLINE void store_weights(std::byte* out, Vec weights) {
  store(reinterpret_cast<float*>(out), weights);
}

// What many rows multiply with: the format in place, or its expansion.
template <WeightFormat Format>
struct Expanded {
  using Step = typename Unpacker<Format>::Step;
  static constexpr bool in_place = Format == WeightFormat::f32 || Format == WeightFormat::bf16;
};

}  // namespace
}  // namespace terrace::inference
