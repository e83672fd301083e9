// 16 float lanes in plain C++. Multiply and add are separate operations.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace terrace::inference {
namespace {

struct Vec {
  float lane[16];
};
struct Pairs {
  std::uint32_t lane[16];
};

// One lane at a time; the compiler makes vectors of it.
template <typename Function>
inline Vec each(Function function) {
  Vec result;
  for (int i = 0; i < 16; ++i) result.lane[i] = function(i);
  return result;
}

inline Vec splat(float x) {
  return each([&](int) { return x; });
}
inline Vec zero() { return splat(0); }
inline Vec load(const float* p) {
  Vec result;
  std::memcpy(&result, p, sizeof result);
  return result;
}
inline void store(float* p, Vec x) { std::memcpy(p, &x, sizeof x); }
inline Vec operator+(const Vec& a, const Vec& b) {
  return each([&](int i) { return a.lane[i] + b.lane[i]; });
}
inline Vec operator-(const Vec& a, const Vec& b) {
  return each([&](int i) { return a.lane[i] - b.lane[i]; });
}
inline Vec operator*(const Vec& a, const Vec& b) {
  return each([&](int i) { return a.lane[i] * b.lane[i]; });
}
inline Vec operator/(const Vec& a, const Vec& b) {
  return each([&](int i) { return a.lane[i] / b.lane[i]; });
}
// a * b + c
inline Vec mul_add(const Vec& a, const Vec& b, const Vec& c) {
  return each([&](int i) { return a.lane[i] * b.lane[i] + c.lane[i]; });
}
inline Vec max(const Vec& a, const Vec& b) {
  return each([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline Vec min(const Vec& a, const Vec& b) {
  return each([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
}
inline Vec keep_from(const Vec& x, const Vec& limit, const Vec& value) {
  return each([&](int i) { return x.lane[i] >= limit.lane[i] ? value.lane[i] : 0.0f; });
}
inline Vec keep_first(const Vec& x, int count, const Vec& fill) {
  return each([&](int i) { return i < count ? x.lane[i] : fill.lane[i]; });
}
// x times 2^n, where n are the low bits of `shifted` taken as an integer.
inline Vec add_exponent(const Vec& x, const Vec& shifted) {
  return each([&](int i) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(x.lane[i]) +
                                (std::bit_cast<std::uint32_t>(shifted.lane[i]) << 23));
  });
}
inline Vec swap_neighbours(const Vec& x) {
  return each([&](int i) { return x.lane[i ^ 1]; });
}

inline float sum(Vec x) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) x.lane[i] += x.lane[i + half];
  }
  return x.lane[0];
}
inline float maximum(Vec x) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) {
      x.lane[i] = x.lane[i] > x.lane[i + half] ? x.lane[i] : x.lane[i + half];
    }
  }
  return x.lane[0];
}

inline std::uint32_t bf16_bits_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t up = bits + 0x7fff + (bits >> 16 & 1);
  return (value == value ? up : bits | 0x400000) & 0xffff0000;
}
inline Vec round_bf16(const Vec& x) {
  return each([&](int i) { return std::bit_cast<float>(bf16_bits_of(x.lane[i])); });
}
inline void store_bf16(std::uint16_t* p, const Vec& x) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<std::uint16_t>(bf16_bits_of(x.lane[i]) >> 16);
}

inline Pairs load_pairs(const void* p) {
  Pairs result;
  std::memcpy(&result, p, sizeof result);
  return result;
}
inline Vec first_of(const Pairs& x) {
  return each([&](int i) { return std::bit_cast<float>(x.lane[i] << 16); });
}
inline Vec second_of(const Pairs& x) {
  return each([&](int i) { return std::bit_cast<float>(x.lane[i] & 0xffff0000); });
}

inline Vec load_f16(const void* p) {
  std::uint16_t half[16];
  std::memcpy(half, p, sizeof half);
  return each([&](int i) {
    const std::uint32_t sign = std::uint32_t{half[i]} >> 15 << 31, exponent = half[i] >> 10 & 31,
                        fraction = half[i] & 1023;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
    if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
    const float tiny = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -tiny : tiny;
  });
}
inline Vec load_i8(const void* p) {
  const auto* from = static_cast<const std::int8_t*>(p);
  return each([&](int i) { return static_cast<float>(from[i]); });
}

inline void prefetch(const void*) {}

template <int J>
inline Vec nibbles(const void* p) {
  std::uint32_t words[16];
  std::memcpy(words, p, sizeof words);
  return each([&](int i) { return static_cast<float>(words[i] >> (4 * J) & 15); });
}
template <int J>
constexpr float nibble_unit() {
  return 1.0f;
}

constexpr int linear_rows = 4, linear_panels = 1;
constexpr int few_rows = 4;
constexpr int panels_together(int) { return 1; }
constexpr int probe_chains = 4;
// Of attention; `streamed` where BF16 tiles are multiplied as they come from memory.
constexpr int attend_rows = 4, attend_sums = 4;
constexpr int streamed_rows = 4, streamed_sums = 4;

}  // namespace
}  // namespace terrace::inference
