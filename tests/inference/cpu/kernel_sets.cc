#include "tests/inference/cpu/kernel_sets.h"

namespace terrace::inference {

#if TERRACE_EMULATED_KERNELS
extern const KernelTable emulated_avx512_kernels, emulated_avx512_bf16_kernels;
#endif

namespace test {

std::vector<KernelSet> kernel_sets() {
  std::vector<KernelSet> sets;
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16}) {
    if (supported(isa)) sets.push_back({to_string(isa), &kernels(isa)});
  }
#if TERRACE_EMULATED_KERNELS
  sets.push_back({"emulated_avx512", &emulated_avx512_kernels});
  sets.push_back({"emulated_avx512_bf16", &emulated_avx512_bf16_kernels});
#endif
  return sets;
}

}  // namespace test
}  // namespace terrace::inference
