#include "inference/cuda/kernels/device_group.cuh"
#include "inference/cuda/kernels/row_bodies.h"

namespace terrace::inference::gpu {

#define TERRACE_ROW_KERNEL(body, Args)                                                  \
  extern "C" __global__ void __launch_bounds__(row_threads) terrace_##body(Args args) { \
    BlockGroup group;                                                                   \
    body(group, args);                                                                  \
  }
TERRACE_ROW_KERNEL(embed, EmbedArgs)
TERRACE_ROW_KERNEL(rms_norm, RmsNormArgs)
TERRACE_ROW_KERNEL(add_bias, AddBiasArgs)
TERRACE_ROW_KERNEL(silu_up, SiluUpArgs)
TERRACE_ROW_KERNEL(rope_store, RopeStoreArgs)
TERRACE_ROW_KERNEL(copy_tokens, CopyTokensArgs)

}  // namespace terrace::inference::gpu
