// What the checksum's kernel and those who launch it must agree on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/cuda/kernel_image.h"

namespace terrace::storage {

// void terrace_hash_pieces(const uint8_t* payload, uint64_t bytes, uint64_t* digests): the XXH3-64
// of each 16 KiB of `payload`. One warp a piece: threads in all >= 32 * pieces.
constexpr const char* hash_kernel_name = "terrace_hash_pieces";
constexpr std::uint64_t hash_piece_bytes = 16 * 1024;
constexpr unsigned hash_threads_per_group = 128;

// Where it is empty the CPU computes checksums.
using cuda::KernelImage;
KernelImage checksum_kernel_image();

}  // namespace terrace::storage
