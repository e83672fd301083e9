#include "inference/cuda/kernels/attend_body.h"
#include "inference/cuda/kernels/device_group.cuh"

namespace terrace::inference::gpu {

extern "C" __global__ void __launch_bounds__(attend_warps* warp_threads)
    terrace_attend_64(AttendArgs args) {
  WarpGroup<attend_warps> warp;
  attend<64>(warp, args);
}
extern "C" __global__ void __launch_bounds__(attend_warps* warp_threads)
    terrace_attend_128(AttendArgs args) {
  WarpGroup<attend_warps> warp;
  attend<128>(warp, args);
}
// More than registers hold: right, not fast.
extern "C" __global__ void __launch_bounds__(attend_warps* warp_threads)
    terrace_attend_256(AttendArgs args) {
  WarpGroup<attend_warps> warp;
  attend<256>(warp, args);
}
extern "C" __global__ void __launch_bounds__(warp_threads) terrace_merge(MergeArgs args) {
  WarpGroup<1> warp;
  merge_partials(warp, args);
}

}  // namespace terrace::inference::gpu
