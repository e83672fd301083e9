// The kernels of one instruction set. Model code passes the table on and asks for its names; the
// functions in it are called by linear.h, attention.h and elementwise.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "inference/cpu/isa.h"

namespace terrace::inference {

// How a row of activations is stored for a product.
enum class Operand : std::uint8_t {
  f32,          // as it is
  f32_rounded,  // F32 holding values rounded to BF16
  bf16,         // BF16, read two at a time
};

// How a panel of 16 outputs is stored.
enum class WeightFormat : std::uint8_t { f32, bf16, q4_0, q4_1, q8_0 };

struct KernelTable {
  Isa isa;
  Operand bf16_operand;  // of products in bf16 compute

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
