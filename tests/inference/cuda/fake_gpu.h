// A GPU of this machine's CPU for inference/cuda: the stand-in for the driver, whose kernels are
// the bodies of the real ones thread by thread, and a stand-in for cuBLASLt.
#pragma once

#include <memory>

#include "inference/cuda/cuda_runtime.h"

namespace terrace::inference::gpu::fake {

// Gives the stand-in's kernels their bodies; once is enough.
void add_kernels();

// The table of a cuBLASLt that computes as its descriptions say, on the stand-in's streams, and
// refuses what the real one would.
BlasLtApi blas_lt();
// Handles, descriptions, layouts and preferences that were not given back.
std::size_t live_blas_objects();

// Of the first device of the stand-in, which was reset before.
std::shared_ptr<const CudaRuntime> open();

}  // namespace terrace::inference::gpu::fake
