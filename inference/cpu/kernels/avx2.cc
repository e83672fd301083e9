#include "inference/cpu/kernels/simd_avx2.h"

#define TERRACE_PAIRED_WEIGHTS 0
#include "inference/cpu/kernels/all.inl"

namespace terrace::inference {

extern const KernelTable avx2_kernels = make_table(Isa::avx2, Operand::f32_rounded);

}  // namespace terrace::inference
