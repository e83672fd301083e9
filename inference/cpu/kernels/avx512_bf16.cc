#include "inference/cpu/kernels/simd_avx512.h"

#define TERRACE_PAIRED_WEIGHTS 1
#include "inference/cpu/kernels/all.inl"

namespace terrace::inference {

extern const KernelTable avx512_bf16_kernels = make_table(Isa::avx512_bf16, Operand::bf16);

}  // namespace terrace::inference
