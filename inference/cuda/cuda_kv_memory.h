// KV blocks in the memory of a GPU.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "inference/cuda/cuda_runtime.h"
#include "inference/cuda/device_buffer.h"
#include "inference/model/kv_memory.h"

namespace terrace::inference::gpu {

// Takes device memory in slabs and keeps it: the driver's own allocator stops the device. `runtime`
// and `kernels` must outlive it.
class CudaKvMemory final : public KvMemory {
 public:
  static Result<std::unique_ptr<CudaKvMemory>> create(const CudaRuntime& runtime,
                                                      const Kernels& kernels);

  Result<std::shared_ptr<std::byte>> allocate(std::size_t bytes) override;
  Status zero(std::byte* block, std::size_t bytes) override;
  Status copy_leading_tokens(const KvGeometry& geometry, std::uint32_t tokens,
                             const std::byte* from, std::byte* to) override;

 private:
  CudaKvMemory(const CudaRuntime& runtime, const Kernels& kernels, Stream stream)
      : runtime_(runtime), kernels_(kernels), stream_(std::move(stream)) {}
  Status take_slab(std::size_t block_bytes, std::vector<std::byte*>& free);

  const CudaRuntime& runtime_;
  const Kernels& kernels_;
  std::mutex mutex_;  // of all that follows
  Stream stream_;
  std::vector<DeviceBuffer> slabs_;
  std::map<std::size_t, std::vector<std::byte*>> free_;  // blocks by size
};

}  // namespace terrace::inference::gpu
