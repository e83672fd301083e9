// Loops that show what the processor can do at best.
#pragma once

namespace terrace::inference {
namespace {

// Multiply-adds of one instruction, and the instruction itself, as `compute` multiplies.
template <Compute>
struct Probe {
  static constexpr double multiply_adds = 16;
  static TERRACE_INLINE Vec multiply(Vec a, Vec b, Vec sum) { return mul_add(a, b, sum); }
};
#if TERRACE_PAIRED_WEIGHTS
template <>
struct Probe<Compute::bf16> {
  static constexpr double multiply_adds = 32;
  static TERRACE_INLINE Vec multiply(Vec a, Vec b, Vec sum) { return probe_pairs(a, b, sum); }
};
#endif

template <Compute C>
double spin_multiply(std::size_t steps) {
  constexpr int chains = probe_chains;
  volatile float input = 1e-3f;
  const Vec a = splat(input), b = splat(input);
  Vec sums[chains];
  TERRACE_UNROLL for (int i = 0; i < chains; ++i) sums[i] = splat(input);
  for (std::size_t step = 0; step < steps; ++step) {
    TERRACE_UNROLL for (int i = 0; i < chains; ++i) sums[i] = Probe<C>::multiply(a, b, sums[i]);
  }
  for (int i = 1; i < chains; ++i) sums[0] = sums[0] + sums[i];
  input = sum(sums[0]);
  return Probe<C>::multiply_adds * chains * static_cast<double>(steps);
}

double spin_multiply_kernel(Compute compute, std::size_t steps) {
  return compute == Compute::bf16 ? spin_multiply<Compute::bf16>(steps)
                                  : spin_multiply<Compute::f32>(steps);
}

// The largest of all bytes taken as floats: a use that costs nothing and cannot be left out.
float read_kernel(const std::byte* data, std::size_t bytes) {
  Vec most[4] = {zero(), zero(), zero(), zero()};
  for (std::size_t i = 0; i + 256 <= bytes; i += 256) {
    TERRACE_UNROLL for (std::size_t j = 0; j < 4; ++j) {
      prefetch(data + i + j * 64 + read_ahead_bytes);
      most[j] = max(load(reinterpret_cast<const float*>(data + i + j * 64)), most[j]);
    }
  }
  return maximum(max(max(most[0], most[1]), max(most[2], most[3])));
}

}  // namespace
}  // namespace terrace::inference
