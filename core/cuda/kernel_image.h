// Compiled kernels, embedded in a program by terrace_cuda_image (cmake/TerraceCuda.cmake).
#pragma once

#include <cstddef>

namespace terrace::cuda {

// Code for several generations of devices, to be loaded by the driver. Empty where the CUDA toolkit
// was not there at build time.
struct KernelImage {
  const void* data = nullptr;
  std::size_t bytes = 0;
};

}  // namespace terrace::cuda
