// 16-bit floats to 32 bits, without instructions that not every processor has. Exact for every
// value, subnormal ones included; branch-free, so that loops over them become vector code.
#pragma once

#include <bit>
#include <cstdint>

namespace terrace::gguf {

// IEEE binary16: 1 sign, 5 exponent (bias 15), 10 mantissa bits.
inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  // Exponents move by 127 - 15; infinities and NaNs (all ones) by twice that, to all ones again.
  const std::uint32_t special = magnitude >= 0x7c00u ? (127u - 15u) << 23 : 0u;
  const std::uint32_t normal = (magnitude << 13) + ((127u - 15u) << 23) + special;
  // By arithmetic on integers: also right where the processor flushes subnormal floats to zero.
  const auto subnormal = std::bit_cast<std::uint32_t>(
      static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f);
  // By masks: around a conditional, compilers put the product in a branch, and no vectors.
  const std::uint32_t is_subnormal = 0u - static_cast<std::uint32_t>(magnitude < 0x0400u);
  return std::bit_cast<float>(sign | (subnormal & is_subnormal) | (normal & ~is_subnormal));
}

// bfloat16: the upper half of a float.
inline float bf16_to_float(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

}  // namespace terrace::gguf
