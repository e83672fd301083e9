// What a GPU's memory and bus give, and what Terrace takes of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/cuda/device.h"
#include "core/status.h"
#include "storage/device/accelerator.h"

namespace terrace::gpu {

struct CopyRate {
  double terrace_gb_s = 0;  // blocks through the accelerator, checksums included
  double floor_gb_s = 0;    // the driver's copies of the same blocks on one stream, nothing else
};

// Blocks of `block_bytes` between registered host memory and the device, `total_bytes` in all; the
// better of a few rounds of each, in turn.
Result<CopyRate> measure_copies(const cuda::Device& device, storage::Accelerator& accelerator,
                                storage::DeviceMemory& memory, bool to_device,
                                std::size_t block_bytes, std::size_t total_bytes);

// Checks of blocks in device memory.
Result<double> measure_checks_gb_s(storage::Accelerator& accelerator, storage::DeviceMemory& memory,
                                   std::size_t block_bytes, std::size_t total_bytes);

struct ReadRate {
  std::size_t block_bytes = 0;
  double contiguous_gb_s = 0;  // the blocks one after the other
  double scattered_gb_s = 0;   // the same number, all over the arena: each needs other TLB entries
};

// A kernel that reads `total_bytes` of blocks, as attention does.
Result<ReadRate> measure_reads(const cuda::Device& device, storage::DeviceMemory& memory,
                               std::size_t block_bytes, std::size_t total_bytes);

}  // namespace terrace::gpu
