// 16 float lanes in one AVX-512 register (F, BW, VL, DQ). Included by one translation unit only;
// tests include it over an emulation of the instructions.
#pragma once

#if !TERRACE_EMULATED_AVX512
#include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>

namespace terrace::inference {
namespace {

struct Vec {
  __m512 v;
};
// 32 BF16 values: two for each of 16 lanes.
struct Pairs {
  __m512i v;
};

inline Vec zero() { return {_mm512_setzero_ps()}; }
inline Vec splat(float x) { return {_mm512_set1_ps(x)}; }
inline Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, Vec x) { _mm512_storeu_ps(p, x.v); }
inline Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
// a * b + c
inline Vec mul_add(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }

inline __m512i splat_bits(std::uint32_t bits) { return _mm512_set1_epi32(static_cast<int>(bits)); }

// `value` in the lanes where x >= limit, 0 elsewhere.
inline Vec keep_from(Vec x, Vec limit, Vec value) {
  return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.v, limit.v, _CMP_GE_OQ), value.v)};
}

// x in the first `count` lanes, `fill` in the others.
inline Vec keep_first(Vec x, int count, Vec fill) {
  const unsigned lanes = count <= 0 ? 0 : count >= 16 ? 0xffff : (1u << count) - 1;
  return {_mm512_mask_mov_ps(fill.v, static_cast<std::uint16_t>(lanes), x.v)};
}

// x times 2^n, where n are the low bits of `shifted` taken as an integer.
inline Vec add_exponent(Vec x, Vec shifted) {
  return {_mm512_castsi512_ps(_mm512_add_epi32(
      _mm512_castps_si512(x.v), _mm512_slli_epi32(_mm512_castps_si512(shifted.v), 23)))};
}

// Lanes 2i and 2i+1 exchanged.
inline Vec swap_neighbours(Vec x) { return {_mm512_shuffle_ps(x.v, x.v, 0xb1)}; }

// The sum in the order that every instruction set uses: halves of 16, of 8, of 4, of 2.
inline float sum(Vec x) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}

inline float maximum(Vec x) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

// Bits rounded to BF16 (nearest even; NaN stays NaN), the lower 16 undefined.
inline __m512i rounded_bits(Vec x) {
  const __m512i bits = _mm512_castps_si512(x.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), splat_bits(1));
  const __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, splat_bits(0x7fff)));
  const __m512i quiet = _mm512_or_si512(bits, splat_bits(0x400000));
  return _mm512_mask_mov_epi32(up, _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q), quiet);
}

// Rounded to BF16, in F32.
inline Vec round_bf16(Vec x) {
  return {_mm512_castsi512_ps(_mm512_and_si512(rounded_bits(x), splat_bits(0xffff0000)))};
}

// 16 values rounded to BF16 and stored as such.
inline void store_bf16(std::uint16_t* p, Vec x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded_bits(x), 16)));
}

inline Pairs load_pairs(const void* p) { return {_mm512_loadu_si512(p)}; }
// The first and the second value of each lane, as F32.
inline Vec first_of(Pairs x) { return {_mm512_castsi512_ps(_mm512_slli_epi32(x.v, 16))}; }
inline Vec second_of(Pairs x) {
  return {_mm512_castsi512_ps(_mm512_and_si512(x.v, splat_bits(0xffff0000)))};
}

inline Vec load_f16(const void* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p)))};
}
inline Vec load_i8(const void* p) {
  return {
      _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))))};
}

#if TERRACE_EMULATED_AVX512
inline void prefetch(const void*) {}
#else
// In assembly: gcc 12 takes a function that only prefetches for one without effects and drops it.
inline void prefetch(const void* p) {
  __asm__ volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(p)));
}
#endif

// The float of the nibble in the lowest bits of each word: a permutation looks at four bits of
// its index only, and so masks and converts at once.
inline Vec low_nibbles(__m512i words) {
  alignas(64) static constexpr float values[16] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                   8, 9, 10, 11, 12, 13, 14, 15};
  return {_mm512_permutexvar_ps(words, _mm512_load_ps(values))};
}

// Nibble J of each 32-bit word at p times nibble_unit(J), as a float.
template <int J>
inline Vec nibbles(const void* p) {
  return low_nibbles(_mm512_srli_epi32(_mm512_loadu_si512(p), 4 * J));
}
template <int J>
constexpr float nibble_unit() {
  return 1.0f;
}

// Sizes of tiles that fit 32 registers.
constexpr int linear_rows = 8, linear_panels = 3;
constexpr int few_rows = 8;
constexpr int panels_together(int rows) { return rows <= 4 ? 3 : 2; }
constexpr int probe_chains = 24;
// Of attention; `streamed` where BF16 tiles are multiplied as they come from memory.
constexpr int attend_rows = 8, attend_sums = 24;
constexpr int streamed_rows = 8, streamed_sums = 16;

}  // namespace
}  // namespace terrace::inference
