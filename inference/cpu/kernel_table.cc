#include "inference/cpu/kernel_table.h"

namespace terrace::inference {

extern const KernelTable portable_kernels;
#if TERRACE_X86_KERNELS
extern const KernelTable avx2_kernels, avx512_kernels, avx512_bf16_kernels;
#endif

const char* KernelTable::numerics(Compute compute) const {
  if (isa == Isa::portable) return "mul-add";
  return operand(compute) == Operand::bf16 ? "dpbf16" : "fma";
}

const KernelTable& kernels(Isa isa) {
  switch (isa) {
    case Isa::automatic:
      return kernels(best_isa());
#if TERRACE_X86_KERNELS
    case Isa::avx2:
      return avx2_kernels;
    case Isa::avx512:
      return avx512_kernels;
    case Isa::avx512_bf16:
      return avx512_bf16_kernels;
#endif
    default:
      return portable_kernels;
  }
}

}  // namespace terrace::inference
