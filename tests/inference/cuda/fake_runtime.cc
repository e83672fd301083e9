#include <utility>

#include "tests/inference/cuda/fake_gpu.h"
#include "tests/storage/cuda/fake_cuda.h"

namespace terrace::inference::gpu::fake {

std::shared_ptr<const CudaRuntime> open() {
  // Any bytes: what kernels do comes from add_kernels().
  static const unsigned char image[1] = {};
  add_kernels();
  auto runtime = std::make_shared<CudaRuntime>();
  runtime->driver = std::make_unique<const cuda::DriverApi>(cuda::fake::api());
  runtime->blas = std::make_unique<const BlasLtApi>(blas_lt());
  auto device = cuda::Device::open(*runtime->driver, 0);
  if (!device) return nullptr;
  runtime->device = std::move(*device);
  runtime->rows = runtime->attention = {image, sizeof image};
  return runtime;
}

}  // namespace terrace::inference::gpu::fake
