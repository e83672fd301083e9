#include "inference/cpu/kernels/simd_avx512.h"

#define TERRACE_PAIRED_WEIGHTS 0
#include "inference/cpu/kernels/all.inl"

namespace terrace::inference {

extern const KernelTable avx512_kernels = make_table(Isa::avx512, Operand::f32_rounded);

}  // namespace terrace::inference
