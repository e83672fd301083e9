// The AVX-512 instructions that the kernels use, on any processor: SIMDe, and what SIMDe lacks or
// rounds differently, by Intel's description of the instruction.
#pragma once

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

template <typename To, typename From>
To lanes_of(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

template <typename T, int N>
struct Lanes {
  T lane[N];
};
using Floats = Lanes<float, 16>;

// One rounding for product and sum; SIMDe makes two where the compiler has no FMA.
inline __m512 emulated_fmadd(__m512 a, __m512 b, __m512 c) {
  const auto x = lanes_of<Floats>(a), y = lanes_of<Floats>(b), z = lanes_of<Floats>(c);
  Floats result;
  for (int i = 0; i < 16; ++i) result.lane[i] = std::fma(x.lane[i], y.lane[i], z.lane[i]);
  return lanes_of<__m512>(result);
}

inline __m256 emulated_extract_eight(__m512 x, int half) {
  const auto all = lanes_of<Floats>(x);
  Lanes<float, 8> eight;
  std::memcpy(&eight, all.lane + 8 * half, sizeof eight);
  return lanes_of<__m256>(eight);
}

inline __m512 emulated_cvtph(__m256i x) {
  const auto halves = lanes_of<Lanes<std::uint16_t, 16>>(x);
  Floats result;
  for (int i = 0; i < 16; ++i) {
    const int exponent = halves.lane[i] >> 10 & 31, fraction = halves.lane[i] & 1023;
    float value = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
    if (exponent == 31) value = fraction != 0 ? NAN : INFINITY;
    result.lane[i] = (halves.lane[i] & 0x8000) != 0 ? -value : value;
  }
  return lanes_of<__m512>(result);
}

inline __m512i emulated_cvtepi8(__m128i x) {
  const auto bytes = lanes_of<Lanes<std::int8_t, 16>>(x);
  Lanes<std::int32_t, 16> result;
  for (int i = 0; i < 16; ++i) result.lane[i] = bytes.lane[i];
  return lanes_of<__m512i>(result);
}

inline __m512 emulated_cvtepi32(__m512i x) {
  const auto words = lanes_of<Lanes<std::int32_t, 16>>(x);
  Floats result;
  for (int i = 0; i < 16; ++i) result.lane[i] = static_cast<float>(words.lane[i]);
  return lanes_of<__m512>(result);
}

inline __m256i emulated_truncate_words(__m512i x) {
  const auto words = lanes_of<Lanes<std::uint32_t, 16>>(x);
  Lanes<std::uint16_t, 16> result;
  for (int i = 0; i < 16; ++i) result.lane[i] = static_cast<std::uint16_t>(words.lane[i]);
  return lanes_of<__m256i>(result);
}

// Subnormals are taken as zero and become zero; MXCSR is not consulted.
inline float flush_subnormal(float x) {
  return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x;
}

inline std::uint16_t emulated_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(flush_subnormal(x));
  if (std::isnan(x)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

using PairsOfBf16 = Lanes<std::uint16_t, 32>;

// The second operand's values first.
inline __m512bh emulated_cvtne2ps(__m512 high, __m512 low) {
  const auto from_high = lanes_of<Floats>(high), from_low = lanes_of<Floats>(low);
  PairsOfBf16 result;
  for (int i = 0; i < 16; ++i) {
    result.lane[i] = emulated_bf16(from_low.lane[i]);
    result.lane[16 + i] = emulated_bf16(from_high.lane[i]);
  }
  return lanes_of<__m512bh>(result);
}

inline __m256bh emulated_cvtneps(__m512 x) {
  const auto values = lanes_of<Floats>(x);
  Lanes<std::uint16_t, 16> result;
  for (int i = 0; i < 16; ++i) result.lane[i] = emulated_bf16(values.lane[i]);
  return lanes_of<__m256bh>(result);
}

// Of each pair the odd element first, each a fused multiply-add.
inline __m512 emulated_dpbf16(__m512 sums, __m512bh a, __m512bh b) {
  auto result = lanes_of<Floats>(sums);
  const auto x = lanes_of<PairsOfBf16>(a), y = lanes_of<PairsOfBf16>(b);
  const auto value = [](std::uint16_t bits) {
    return flush_subnormal(std::bit_cast<float>(std::uint32_t{bits} << 16));
  };
  for (int i = 0; i < 16; ++i) {
    for (const int k : {2 * i + 1, 2 * i}) {
      result.lane[i] =
          flush_subnormal(std::fma(value(x.lane[k]), value(y.lane[k]), result.lane[i]));
    }
  }
  return lanes_of<__m512>(result);
}

}  // namespace

#undef _mm512_fmadd_ps
#undef _mm512_extractf32x8_ps
#undef _mm512_cvtph_ps
#undef _mm512_cvtepi8_epi32
#undef _mm512_cvtepi32_ps
#undef _mm512_cvtepi32_epi16
#undef _mm512_cvtne2ps_pbh
#undef _mm512_cvtneps_pbh
#undef _mm512_dpbf16_ps
#define _mm512_fmadd_ps emulated_fmadd
#define _mm512_extractf32x8_ps emulated_extract_eight
#define _mm512_cvtph_ps emulated_cvtph
#define _mm512_cvtepi8_epi32 emulated_cvtepi8
#define _mm512_cvtepi32_ps emulated_cvtepi32
#define _mm512_cvtepi32_epi16 emulated_truncate_words
#define _mm512_cvtne2ps_pbh emulated_cvtne2ps
#define _mm512_cvtneps_pbh emulated_cvtneps
#define _mm512_dpbf16_ps emulated_dpbf16

#define TERRACE_EMULATED_AVX512 1
