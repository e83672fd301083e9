// The kernels of one instruction set. Model code passes the table on and asks for its names; the
// functions in it are called by linear.h, attention.h, elementwise.h and probe.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "inference/cpu/isa.h"
#include "inference/cpu/kernel_args.h"

namespace terrace::inference {

struct KernelTable {
  Isa isa;
  Operand bf16_operand;  // of products in bf16 compute
  // Whether packed weights of two k of one output lie side by side (for instructions that
  // multiply pairs) instead of 16 outputs of one k.
  bool paired_weights;

  void (*linear)(const LinearArgs& args);
  void (*attend)(const AttendArgs& args);
  // Merges `rows` partial states into running states (see AttendArgs).
  void (*merge_states)(float* states, const float* partials, std::size_t rows,
                       std::uint32_t padded_dim);
  // Divides the values of a state by its sum: `dims` operands to `out`.
  void (*finish_state)(const float* state, std::uint32_t dims, Operand operand, std::byte* out);
  void (*store_kv)(const StoreKvArgs& args);
  // Converts `count` floats and fills up to `padded` (a multiple of 16) with zeros.
  void (*convert)(const float* x, std::size_t count, std::size_t padded, Operand operand,
                  std::byte* out);
  void (*rms_norm)(const float* x, const float* weight, std::size_t count, float epsilon,
                   Operand operand, std::byte* out);
  void (*silu_up)(const float* gate, const float* up, std::size_t count, Operand operand,
                  std::byte* out);
  void (*rope)(float* x, const float* cosines, const float* sines, std::size_t dims);
  void (*add)(float* y, const float* x, std::size_t count);
  void (*exp2)(float* x, std::size_t count);  // in place, as attention computes it
  // Multiply-adds done; a loop in registers of `steps` times the widest tile.
  double (*spin_multiply)(Compute compute, std::size_t steps);
  float (*read)(const std::byte* data, std::size_t bytes);

  // Names the order and rounding of the sums: "mul-add", "fma" or "dpbf16". Equal names give
  // equal bits.
  const char* numerics(Compute compute) const;
  Operand operand(Compute compute) const {
    return compute == Compute::f32 ? Operand::f32 : bf16_operand;
  }
};

// The table of an instruction set that is supported() (automatic: of best_isa()).
const KernelTable& kernels(Isa isa);

}  // namespace terrace::inference
