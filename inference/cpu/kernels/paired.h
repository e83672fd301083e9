// Products of pairs of BF16 values (AVX512_BF16): one instruction multiplies two k of 16 outputs.
#pragma once

namespace terrace::inference {
namespace {

TERRACE_INLINE Vec multiply_pairs(__m512i a, __m512i b, Vec sum) {
  return {_mm512_dpbf16_ps(sum.v, (__m512bh)a, (__m512bh)b)};
}

// BF16 weights times operands in BF16.
struct StepPairs {
  static constexpr std::size_t inputs = 2, operand_bytes = 2 * sizeof(std::uint16_t);
  using Weights = Pairs;
  static TERRACE_INLINE Weights weights(const std::byte* p) { return load_pairs(p); }
  template <int R, int V>
  static TERRACE_INLINE void run(const std::byte* x, std::size_t x_pitch, const Weights (&w)[V],
                                 Vec (&sums)[R][V]) {
    TERRACE_UNROLL for (int r = 0; r < R; ++r) {
      std::uint32_t pair;
      __builtin_memcpy(&pair, x + r * x_pitch, sizeof pair);
      const __m512i value = splat_bits(pair);
      TERRACE_UNROLL for (int v = 0; v < V; ++v) {
        sums[r][v] = multiply_pairs(value, w[v].v, sums[r][v]);
      }
    }
  }
};

TERRACE_INLINE Vec probe_pairs(Vec a, Vec b, Vec sum) {
  return multiply_pairs(_mm512_castps_si512(a.v), _mm512_castps_si512(b.v), sum);
}

// Two vectors of 8 outputs times 2 k, rounded to BF16: outputs 0-7, then 8-15.
TERRACE_INLINE Pairs round_pairs(Vec low, Vec high) {
  return {(__m512i)_mm512_cvtne2ps_pbh(high.v, low.v)};
}

// Each of lanes 0-7, or 8-15, twice.
TERRACE_INLINE Vec low_lanes_twice(Vec x) {
  alignas(64) static constexpr std::int32_t lanes[16] = {0, 0, 1, 1, 2, 2, 3, 3,
                                                         4, 4, 5, 5, 6, 6, 7, 7};
  return {_mm512_permutexvar_ps(_mm512_load_si512(lanes), x.v)};
}
TERRACE_INLINE Vec high_lanes_twice(Vec x) {
  alignas(64) static constexpr std::int32_t lanes[16] = {8,  8,  9,  9,  10, 10, 11, 11,
                                                         12, 12, 13, 13, 14, 14, 15, 15};
  return {_mm512_permutexvar_ps(_mm512_load_si512(lanes), x.v)};
}

template <WeightFormat Format>
class Unpacker {
 public:
  using Step = StepPairs;
  static constexpr int units = 4, steps = 4;

  TERRACE_INLINE void open(const std::byte* panel, std::size_t padded_inputs) {
    scales_ = panel;
    values_ = panel + scale_bytes(Format, padded_inputs);
  }
  TERRACE_INLINE void begin() {
    const Vec scale = load_f16(scales_);
    scales_ += 32;
    low_scale_ = low_lanes_twice(scale);
    high_scale_ = high_lanes_twice(scale);
    if constexpr (Format == WeightFormat::q4_1) {
      const Vec offset = load_f16(scales_);
      scales_ += 32;
      low_offset_ = low_lanes_twice(offset);
      high_offset_ = high_lanes_twice(offset);
    } else if constexpr (Format == WeightFormat::q4_0) {
      low_offset_ = low_scale_ * splat(-8.0f);
      high_offset_ = high_scale_ * splat(-8.0f);
    }
  }
  template <int I>
  TERRACE_INLINE Pairs weights() const {
    if constexpr (Format == WeightFormat::q8_0) {
      return round_pairs(load_i8(values_ + I * 32) * low_scale_,
                         load_i8(values_ + I * 32 + 16) * high_scale_);
    } else {
      constexpr int shift = I * 8;
      const __m512i words = load_pairs(values_).v;
      return round_pairs(
          mul_add(low_nibbles(_mm512_srli_epi32(words, shift)), low_scale_, low_offset_),
          mul_add(low_nibbles(_mm512_srli_epi32(words, shift + 4)), high_scale_, high_offset_));
    }
  }
  TERRACE_INLINE void next() { values_ += Format == WeightFormat::q8_0 ? 128 : 64; }

 private:
  const std::byte *scales_, *values_;
  Vec low_scale_, high_scale_, low_offset_, high_offset_;
};

// As store_bf16, for values that are zero or normal.
TERRACE_INLINE void store_bf16_normal(std::byte* p, Vec x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)_mm512_cvtneps_pbh(x.v));
}

TERRACE_INLINE void store_weights(std::byte* out, Pairs weights) {
  _mm512_storeu_si512(out, weights.v);
}

}  // namespace
}  // namespace terrace::inference
