// Exponentials, norms, activation, rotation: one row at a time, in a fixed order.
#pragma once

namespace terrace::inference {
namespace {

// 2^fraction for |fraction| <= 1/2: least relative error of degree 5 (1e-7) with the constant 1.
TERRACE_INLINE Vec power_of_fraction(Vec fraction) {
  Vec p = splat(0.00132647261f);
  p = mul_add(p, fraction, splat(0.00967151299f));
  p = mul_add(p, fraction, splat(0.0555073358f));
  p = mul_add(p, fraction, splat(0.240222424f));
  p = mul_add(p, fraction, splat(0.693147004f));
  return mul_add(p, fraction, splat(1.0f));
}

// The cut at the bottom keeps every result a normal number, so that its exponent can be added to.
constexpr float least_exponent = -125.0f, greatest_exponent = 126.0f;

// 2^x for x <= greatest_exponent: exactly 1 at 0, 0 below 2^-125.
TERRACE_INLINE Vec exp2_limited(Vec x) {
  const Vec magic = splat(12582912.0f);  // 1.5 * 2^23: the sum's low bits are x rounded
  const Vec shifted = max(x, splat(least_exponent)) + magic;
  const Vec fraction = max(x, splat(least_exponent)) - (shifted - magic);
  return keep_from(x, splat(least_exponent), add_exponent(power_of_fraction(fraction), shifted));
}

// At most 2^126.
TERRACE_INLINE Vec exp2_of(Vec x) { return exp2_limited(min(x, splat(greatest_exponent))); }

void exp2_kernel(float* x, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 16) {
    store_part(x + i, exp2_of(load_part(x + i, count - i)), count - i);
  }
}

void convert_kernel(const float* x, std::size_t count, std::size_t padded, Operand operand,
                    std::byte* out) {
  const std::size_t bytes = operand_bytes(operand);
  for (std::size_t i = 0; i < padded; i += 16) {
    store_operands(operand, out + i * bytes, i < count ? load_part(x + i, count - i) : zero());
  }
}

void rms_norm_kernel(const float* x, const float* weight, std::size_t count, float epsilon,
                     Operand operand, std::byte* out) {
  Vec squares = zero();
  for (std::size_t i = 0; i < count; i += 16) {
    const Vec value = load_part(x + i, count - i);
    squares = mul_add(value, value, squares);
  }
  const float mean = sum(squares) / static_cast<float>(count);
  const Vec scale = splat(1.0f / __builtin_sqrtf(mean + epsilon));
  const std::size_t bytes = operand_bytes(operand);
  for (std::size_t i = 0; i < count; i += 16) {
    const Vec value = load_part(x + i, count - i) * scale * load_part(weight + i, count - i);
    store_operands_part(operand, out + i * bytes, value, count - i);
  }
}

// gate / (1 + e^-gate) * up
void silu_up_kernel(const float* gate, const float* up, std::size_t count, Operand operand,
                    std::byte* out) {
  const Vec minus_log2_e = splat(-1.44269504f), one = splat(1.0f);
  const std::size_t bytes = operand_bytes(operand);
  for (std::size_t i = 0; i < count; i += 16) {
    const Vec x = load_part(gate + i, count - i);
    const Vec silu = x / (one + exp2_of(x * minus_log2_e));
    store_operands_part(operand, out + i * bytes, silu * load_part(up + i, count - i), count - i);
  }
}

void rope_kernel(float* x, const float* cosines, const float* sines, std::size_t dims) {
  for (std::size_t i = 0; i < dims; i += 16) {
    const Vec value = load_part(x + i, dims - i);
    const Vec turned = mul_add(swap_neighbours(value), load_part(sines + i, dims - i),
                               value * load_part(cosines + i, dims - i));
    store_part(x + i, turned, dims - i);
  }
}

void add_kernel(float* y, const float* x, std::size_t count) {
  for (std::size_t i = 0; i < count; i += 16) {
    store_part(y + i, load_part(y + i, count - i) + load_part(x + i, count - i), count - i);
  }
}

}  // namespace
}  // namespace terrace::inference
