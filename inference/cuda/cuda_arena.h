// The daemon's arena in the memory of the GPU that computes here.
#pragma once

#include <memory>
#include <string>

#include "client/arena_memory.h"
#include "inference/cuda/cuda_runtime.h"

namespace terrace::inference::gpu {

class CudaArenaImporter final : public client::ArenaImporter {
 public:
  explicit CudaArenaImporter(std::shared_ptr<const CudaRuntime> runtime)
      : runtime_(std::move(runtime)) {}

  // failed_precondition if it is the memory of another GPU.
  Result<std::shared_ptr<const client::ArenaMemory>> import(
      int fd, std::uint64_t bytes, const std::string& device_uuid) override;

 private:
  std::shared_ptr<const CudaRuntime> runtime_;
};

}  // namespace terrace::inference::gpu
