// 16 float lanes in two AVX2 registers. Included by one translation unit only.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace terrace::inference {
namespace {

struct Vec {
  __m256 lo, hi;
};
// 32 BF16 values: two for each of 16 lanes.
struct Pairs {
  __m256i lo, hi;
};

inline Vec zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline Vec splat(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Vec load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, Vec x) {
  _mm256_storeu_ps(p, x.lo);
  _mm256_storeu_ps(p + 8, x.hi);
}
inline Vec operator+(Vec a, Vec b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
inline Vec operator-(Vec a, Vec b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
inline Vec operator*(Vec a, Vec b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
inline Vec operator/(Vec a, Vec b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
// a * b + c
inline Vec mul_add(Vec a, Vec b, Vec c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
inline Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
inline Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }

// `value` in the lanes where x >= limit, 0 elsewhere.
inline Vec keep_from(Vec x, Vec limit, Vec value) {
  return {_mm256_and_ps(_mm256_cmp_ps(x.lo, limit.lo, _CMP_GE_OQ), value.lo),
          _mm256_and_ps(_mm256_cmp_ps(x.hi, limit.hi, _CMP_GE_OQ), value.hi)};
}

// x in the first `count` lanes, `fill` in the others.
inline Vec keep_first(Vec x, int count, Vec fill) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i lo = _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lane);
  const __m256i hi = _mm256_cmpgt_epi32(_mm256_set1_epi32(count - 8), lane);
  return {_mm256_blendv_ps(fill.lo, x.lo, _mm256_castsi256_ps(lo)),
          _mm256_blendv_ps(fill.hi, x.hi, _mm256_castsi256_ps(hi))};
}

// x times 2^n, where n are the low bits of `shifted` taken as an integer.
inline Vec add_exponent(Vec x, Vec shifted) {
  const auto half = [](__m256 value, __m256 n) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(value),
                                                _mm256_slli_epi32(_mm256_castps_si256(n), 23)));
  };
  return {half(x.lo, shifted.lo), half(x.hi, shifted.hi)};
}

// Lanes 2i and 2i+1 exchanged.
inline Vec swap_neighbours(Vec x) {
  return {_mm256_permute_ps(x.lo, 0xb1), _mm256_permute_ps(x.hi, 0xb1)};
}

// The sum in the order that every instruction set uses: halves of 16, of 8, of 4, of 2.
inline float sum(Vec x) {
  const __m256 eight = _mm256_add_ps(x.lo, x.hi);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

inline float maximum(Vec x) {
  const __m256 eight = _mm256_max_ps(x.lo, x.hi);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// Rounded to BF16 (nearest even; NaN stays NaN), in F32.
inline Vec round_bf16(Vec x) {
  const auto half = [](__m256 value) {
    const __m256i bits = _mm256_castps_si256(value);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256 nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
    const __m256i chosen = _mm256_blendv_epi8(up, quiet, _mm256_castps_si256(nan));
    return _mm256_castsi256_ps(
        _mm256_and_si256(chosen, _mm256_set1_epi32(static_cast<int>(0xffff0000))));
  };
  return {half(x.lo), half(x.hi)};
}

// 16 values rounded to BF16 and stored as such.
inline void store_bf16(std::uint16_t* p, Vec x) {
  const Vec rounded = round_bf16(x);
  const __m256i packed =
      _mm256_packus_epi32(_mm256_srli_epi32(_mm256_castps_si256(rounded.lo), 16),
                          _mm256_srli_epi32(_mm256_castps_si256(rounded.hi), 16));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(packed, 0xd8));
}

inline Pairs load_pairs(const void* p) {
  const auto* from = static_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(from), _mm256_loadu_si256(from + 1)};
}
// The first and the second value of each lane, as F32.
inline Vec first_of(Pairs x) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(x.lo, 16)),
          _mm256_castsi256_ps(_mm256_slli_epi32(x.hi, 16))};
}
inline Vec second_of(Pairs x) {
  const __m256i mask = _mm256_set1_epi32(static_cast<int>(0xffff0000));
  return {_mm256_castsi256_ps(_mm256_and_si256(x.lo, mask)),
          _mm256_castsi256_ps(_mm256_and_si256(x.hi, mask))};
}

inline Vec load_f16(const void* p) {
  const auto* from = static_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(from)), _mm256_cvtph_ps(_mm_loadu_si128(from + 1))};
}

inline Vec load_i8(const void* p) {
  const auto* from = static_cast<const std::int8_t*>(p);
  const auto half = [](const std::int8_t* eight) {
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(eight))));
  };
  return {half(from), half(from + 8)};
}

// In assembly: gcc 12 takes a function that only prefetches for one without effects and drops it.
inline void prefetch(const void* p) {
  __asm__ volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(p)));
}

// Nibble J of each 32-bit word at p times nibble_unit(J), as a float. Left where it lies the
// nibble needs no shift, and its scale takes the power of two back exactly.
template <int J>
inline Vec nibbles(const void* p) {
  const auto* from = static_cast<const __m256i*>(p);
  const auto half = [](__m256i x) {
    if constexpr (J == 7) return _mm256_cvtepi32_ps(_mm256_srli_epi32(x, 28));
    return _mm256_cvtepi32_ps(_mm256_and_si256(x, _mm256_set1_epi32(0xf << (4 * (J % 7)))));
  };
  return {half(_mm256_loadu_si256(from)), half(_mm256_loadu_si256(from + 1))};
}
template <int J>
constexpr float nibble_unit() {
  return J == 7 ? 1.0f : static_cast<float>(1u << (4 * J));
}

// Sizes of tiles that fit 16 registers, in vectors of 16 lanes (two registers each).
constexpr int linear_rows = 6, linear_panels = 1;
constexpr int few_rows = 4;
constexpr int panels_together(int) { return 1; }  // two cost 15 % at one row, by spilling
constexpr int probe_chains = 6;
// Of attention; `streamed` where BF16 tiles are multiplied as they come from memory.
constexpr int attend_rows = 6, attend_sums = 6;
constexpr int streamed_rows = 4, streamed_sums = 4;

}  // namespace
}  // namespace terrace::inference
