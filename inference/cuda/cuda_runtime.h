// What a model on a GPU is computed with: the driver, cuBLASLt, a device, and the kernels.
#pragma once

#include <memory>
#include <string>

#include "core/cuda/device.h"
#include "core/cuda/kernel_image.h"
#include "core/status.h"
#include "inference/cuda/blas_lt.h"

namespace terrace::inference::gpu {

// The compiled kernels of kernels/rows.cu and kernels/attention.cu; empty without a toolkit.
cuda::KernelImage rows_image();
cuda::KernelImage attention_image();

// Immutable once open. Members are destroyed in the right order.
struct CudaRuntime {
  std::unique_ptr<const cuda::DriverApi> driver;
  std::unique_ptr<const BlasLtApi> blas;
  std::unique_ptr<const cuda::Device> device;
  cuda::KernelImage rows = rows_image();
  cuda::KernelImage attention = attention_image();

  // Of device `ordinal`. unavailable, with a reason for people, where there is no driver, device,
  // cuBLASLt or kernel.
  static Result<std::shared_ptr<const CudaRuntime>> open(int ordinal);
};

// The kernels of a device, loaded.
class Kernels {
 public:
  // What the driver says if it cannot: an image that is newer than the driver does not load.
  static Result<std::unique_ptr<Kernels>> load(const CudaRuntime& runtime);
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  cuda::FunctionHandle embed, rms_norm, add_bias, silu_up, rope_store, copy_tokens;
  cuda::FunctionHandle attend_64, attend_128, attend_256, merge;

  // Puts a kernel of `args` on the stream. The device's context is current.
  template <typename Args>
  Status launch(cuda::FunctionHandle kernel, unsigned grid_x, unsigned grid_y, unsigned threads,
                Args args, cuda::StreamHandle stream) const {
    void* parameters[] = {&args};
    return cuda::to_status(device_.api(),
                           device_.api().launch_kernel(kernel, grid_x, grid_y, 1, threads, 1, 1, 0,
                                                       stream, parameters, nullptr),
                           "could not launch a kernel");
  }

 private:
  explicit Kernels(const cuda::Device& device) : device_(device) {}

  const cuda::Device& device_;
  cuda::ModuleHandle rows_ = nullptr, attention_ = nullptr;
};

}  // namespace terrace::inference::gpu
