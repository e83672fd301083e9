// The one inner loop of all products: R rows times V vectors of 16 lanes, summed over k in
// ascending order, all sums in registers.
#pragma once

namespace terrace::inference {
namespace {

#define TERRACE_INLINE inline __attribute__((always_inline))
#define TERRACE_LAMBDA_INLINE __attribute__((always_inline))
#define TERRACE_UNROLL _Pragma("GCC unroll 32")

// A step reads one 64-byte vector of weights: one k in F32 or two in BF16.
struct StepF32 {
  static constexpr std::size_t inputs = 1, operand_bytes = sizeof(float);
  using Weights = Vec;
  static TERRACE_INLINE Weights weights(const std::byte* p) {
    return load(reinterpret_cast<const float*>(p));
  }
  template <int R, int V>
  static TERRACE_INLINE void run(const std::byte* x, std::size_t x_pitch, const Weights (&w)[V],
                                 Vec (&sums)[R][V]) {
    TERRACE_UNROLL for (int r = 0; r < R; ++r) {
      const Vec value = splat(*reinterpret_cast<const float*>(x + r * x_pitch));
      TERRACE_UNROLL for (int v = 0; v < V; ++v) sums[r][v] = mul_add(value, w[v], sums[r][v]);
    }
  }
};

// BF16 weights times operands in F32.
struct StepBf16 {
  static constexpr std::size_t inputs = 2, operand_bytes = 2 * sizeof(float);
  using Weights = Pairs;
  static TERRACE_INLINE Weights weights(const std::byte* p) { return load_pairs(p); }
  template <int R, int V>
  static TERRACE_INLINE void run(const std::byte* x, std::size_t x_pitch, const Weights (&w)[V],
                                 Vec (&sums)[R][V]) {
    Vec half[V];
    TERRACE_UNROLL for (int v = 0; v < V; ++v) half[v] = first_of(w[v]);
    StepF32::run<R, V>(x, x_pitch, half, sums);
    TERRACE_UNROLL for (int v = 0; v < V; ++v) half[v] = second_of(w[v]);
    StepF32::run<R, V>(x + sizeof(float), x_pitch, half, sums);
  }
};

// Asks for some lines of memory at each step of a loop, until all are asked for.
struct ReadAhead {
  const std::byte *next, *end;
  std::size_t lines_a_step;

  TERRACE_INLINE void step() {
    for (std::size_t line = 0; line < lines_a_step && next < end; ++line, next += 64) {
      prefetch(next);
    }
  }
};
struct NoReadAhead {
  TERRACE_INLINE void step() {}
};

template <class Step, int R, int V, class Ahead>
TERRACE_INLINE void multiply(const std::byte* x, std::size_t x_pitch, const std::byte* w,
                             std::size_t vector_stride, std::size_t step_stride, std::size_t steps,
                             Vec (&sums)[R][V], Ahead& ahead) {
  for (std::size_t step = 0; step < steps; ++step) {
    ahead.step();
    typename Step::Weights weights[V];
    TERRACE_UNROLL for (int v = 0; v < V; ++v) weights[v] = Step::weights(w + v * vector_stride);
    Step::template run<R, V>(x, x_pitch, weights, sums);
    x += Step::operand_bytes;
    w += step_stride;
  }
}

// Calls function<R>() for the constant R = rows in [Least, Most].
template <int Least, int Most, class Function>
TERRACE_INLINE void with_rows(std::size_t rows, Function&& function) {
  if constexpr (Most >= Least) {
    if (rows == Most) return function.template operator()<Most>();
    with_rows<Least, Most - 1>(rows, function);
  }
}

template <int R, int V>
TERRACE_INLINE void clear(Vec (&sums)[R][V]) {
  TERRACE_UNROLL for (int r = 0; r < R; ++r) {
    TERRACE_UNROLL for (int v = 0; v < V; ++v) sums[r][v] = zero();
  }
}

// Stores 16 values in the form of an operand; `out` is the first of them.
TERRACE_INLINE void store_operands(Operand operand, std::byte* out, Vec x) {
  switch (operand) {
    case Operand::f32:
      return store(reinterpret_cast<float*>(out), x);
    case Operand::f32_rounded:
      return store(reinterpret_cast<float*>(out), round_bf16(x));
    case Operand::bf16:
      return store_bf16(reinterpret_cast<std::uint16_t*>(out), x);
  }
}

// The first `count` of 16 floats; zeros after them.
TERRACE_INLINE Vec load_part(const float* p, std::size_t count) {
  if (count >= 16) return load(p);
  float part[16] = {};
  for (std::size_t i = 0; i < count; ++i) part[i] = p[i];
  return load(part);
}
TERRACE_INLINE void store_part(float* p, Vec x, std::size_t count) {
  if (count >= 16) return store(p, x);
  float part[16];
  store(part, x);
  for (std::size_t i = 0; i < count; ++i) p[i] = part[i];
}
TERRACE_INLINE void store_operands_part(Operand operand, std::byte* out, Vec x, std::size_t count) {
  if (count >= 16) return store_operands(operand, out, x);
  std::byte part[16 * sizeof(float)];
  store_operands(operand, part, x);
  const std::size_t bytes = count * operand_bytes(operand);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = part[i];
}

}  // namespace
}  // namespace terrace::inference
