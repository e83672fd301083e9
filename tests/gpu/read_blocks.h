// What the reading kernel and those who launch it must agree on.
#pragma once

#include "core/cuda/kernel_image.h"

namespace terrace::gpu {

// void terrace_read_blocks(const uint64_t* addresses, uint64_t block_bytes, uint64_t* sums): adds
// up the words of the block at each address, a group of threads a block, as attention reads KV
// blocks.
constexpr const char* read_kernel_name = "terrace_read_blocks";
constexpr unsigned read_threads_per_block = 256;

cuda::KernelImage read_blocks_image();

}  // namespace terrace::gpu
