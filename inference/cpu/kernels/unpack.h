// Packed weights to what a step multiplies. The values are those of the expanded weight rounded
// to BF16, bit for bit.
#pragma once

namespace terrace::inference {
namespace {

// Rounds to BF16 by Veltkamp's splitting: three operations that share the work of both kinds of
// floating-point unit. Equals rounding to nearest even wherever neither x * 65537 overflows nor x
// is subnormal; expanded 4-bit and 8-bit weights are multiples of 2^-24 below 2^21.
TERRACE_INLINE Vec round_normal(Vec x) {
  const Vec scaled = x * splat(65537.0f);
  return scaled + (x - scaled);
}

#if !TERRACE_PAIRED_WEIGHTS

using StepPairs = StepBf16;  // no instruction for pairs: never asked for

// Unpackers walk a panel block by block (32 k), a block in `units` of `steps` steps each: begin()
// reads the scales of a block, weights<I>() gives the vector of the I-th step of a unit, next()
// goes on to the next unit.
template <WeightFormat Format>
class Unpacker {
 public:
  using Step = StepF32;
  static constexpr int units = 4, steps = 8;

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
      return round_normal(load_i8(values_ + I * 16) * scale_[0]);
    } else {
      return round_normal(mul_add(nibbles<I>(values_), scale_[I], offset_));
    }
  }
  TERRACE_INLINE void next() { values_ += Format == WeightFormat::q8_0 ? 128 : 64; }

 private:
  static constexpr float units_[8] = {nibble_unit<0>(), nibble_unit<1>(), nibble_unit<2>(),
                                      nibble_unit<3>(), nibble_unit<4>(), nibble_unit<5>(),
                                      nibble_unit<6>(), nibble_unit<7>()};
  const std::byte *scales_, *values_;
  Vec scale_[8], offset_;
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
  static constexpr int units = 4, steps = 8;

  TERRACE_INLINE void open(const std::byte* panel, std::size_t) { values_ = panel; }
  TERRACE_INLINE void begin() {}
  template <int I>
  TERRACE_INLINE Vec weights() const {
    return load(reinterpret_cast<const float*>(values_ + I * 64));
  }
  TERRACE_INLINE void next() { values_ += steps * 64; }

 private:
  const std::byte* values_;
};

template <>
class Unpacker<WeightFormat::bf16> {
 public:
  using Step = StepPairs;
  static constexpr int units = 4, steps = 4;

  TERRACE_INLINE void open(const std::byte* panel, std::size_t) { values_ = panel; }
  TERRACE_INLINE void begin() {}
  template <int I>
  TERRACE_INLINE Pairs weights() const {
    return load_pairs(values_ + I * 64);
  }
  TERRACE_INLINE void next() { values_ += steps * 64; }

 private:
  const std::byte* values_;
};

TERRACE_INLINE void store_weights(std::byte* out, Vec weights) {
  store(reinterpret_cast<float*>(out), weights);
}

// What many rows multiply with, from the weights of a step; and whether that is the format itself.
#if TERRACE_PAIRED_WEIGHTS
template <WeightFormat Format>
struct Expanded {
  using Step = typename Unpacker<Format>::Step;
  static constexpr bool in_place = Format == WeightFormat::f32 || Format == WeightFormat::bf16;
};
#else
// BF16 too: half as many operations a product as with BF16 in the loop.
template <WeightFormat Format>
struct Expanded {
  using Step = StepF32;
  static constexpr bool in_place = Format == WeightFormat::f32;
};
TERRACE_INLINE void store_weights(std::byte* out, Pairs weights) {
  store(reinterpret_cast<float*>(out), first_of(weights));
  store(reinterpret_cast<float*>(out + 64), second_of(weights));
}
#endif

}  // namespace
}  // namespace terrace::inference
