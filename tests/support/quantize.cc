#include "tests/support/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "core/bytes.h"
#include "inference/gguf/half.h"

namespace terrace::test_support {
namespace {

constexpr std::size_t block_values = 32;

float largest_magnitude(const float* values) {
  float largest = 0;
  for (std::size_t i = 0; i < block_values; ++i) {
    if (std::abs(values[i]) > std::abs(largest)) largest = values[i];
  }
  return largest;  // with its sign
}

int nearest(float value, int low, int high) {
  return std::clamp(static_cast<int>(std::lround(value)), low, high);
}

// 32 numbers of 4 bits: number j below, number j + 16 above in byte j.
template <typename NumberOf>
void pack_nibbles(char* out, NumberOf number_of) {
  for (std::size_t j = 0; j < 16; ++j)
    out[j] = static_cast<char>(number_of(j) | number_of(j + 16) << 4);
}

void q8_0(const float* values, char* out) {
  const std::uint16_t scale = float_to_half(std::abs(largest_magnitude(values)) / 127);
  const float d = gguf::half_to_float(scale);
  store_le(out, scale);
  for (std::size_t i = 0; i < block_values; ++i) {
    out[2 + i] = static_cast<char>(d == 0 ? 0 : nearest(values[i] / d, -127, 127));
  }
}

void q4_0(const float* values, char* out) {
  const std::uint16_t scale = float_to_half(largest_magnitude(values) / -8);
  const float d = gguf::half_to_float(scale);
  store_le(out, scale);
  pack_nibbles(out + 2,
               [&](std::size_t i) { return d == 0 ? 8 : nearest(values[i] / d + 8, 0, 15); });
}

void q4_1(const float* values, char* out) {
  const auto [least, most] = std::minmax_element(values, values + block_values);
  const std::uint16_t scale = float_to_half((*most - *least) / 15), min = float_to_half(*least);
  const float d = gguf::half_to_float(scale), m = gguf::half_to_float(min);
  store_le(out, scale);
  store_le(out + 2, min);
  pack_nibbles(out + 4,
               [&](std::size_t i) { return d == 0 ? 0 : nearest((values[i] - m) / d, 0, 15); });
}

}  // namespace

std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const float magnitude = std::abs(value);
  if (std::isnan(value)) return sign | 0x7e00u;
  if (magnitude >= 65520.0f) return sign | 0x7c00u;
  // In units of the last place of the result, of which there are 2^-24 at the least; nearbyint
  // rounds ties to even.
  const int exponent = std::max(magnitude == 0 ? -14 : std::ilogb(magnitude), -14);
  const auto units =
      static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  // A mantissa that was rounded up to 2^11 moves the exponent up by itself, for subnormals too.
  return static_cast<std::uint16_t>(sign |
                                    (static_cast<std::uint32_t>(exponent + 14) * 0x400u + units));
}

std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

std::string quantize(gguf::TensorType type, std::span<const float> values) {
  const gguf::BlockShape shape = gguf::block_shape(type);
  std::string bytes(values.size() / shape.values * shape.bytes, '\0');
  char* out = bytes.data();
  for (std::size_t i = 0; i < values.size(); i += shape.values, out += shape.bytes) {
    switch (type) {
      case gguf::TensorType::f32:
        store_le(out, values[i]);
        break;
      case gguf::TensorType::f16:
        store_le(out, float_to_half(values[i]));
        break;
      case gguf::TensorType::bf16:
        store_le(out, float_to_bf16(values[i]));
        break;
      case gguf::TensorType::q8_0:
        q8_0(&values[i], out);
        break;
      case gguf::TensorType::q4_0:
        q4_0(&values[i], out);
        break;
      case gguf::TensorType::q4_1:
        q4_1(&values[i], out);
        break;
      default:
        std::abort();
    }
  }
  return bytes;
}

}  // namespace terrace::test_support
