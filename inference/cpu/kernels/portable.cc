#include "inference/cpu/kernels/simd_portable.h"

#define TERRACE_PAIRED_WEIGHTS 0
#include "inference/cpu/kernels/all.inl"

namespace terrace::inference {

extern const KernelTable portable_kernels = make_table(Isa::portable, Operand::f32_rounded);

}  // namespace terrace::inference
