// What this machine can do at best, for benchmarks to compare with.
#pragma once

#include <cstddef>

#include "inference/cpu/kernel_table.h"
#include "inference/cpu/team.h"

namespace terrace::inference {

// Multiply-adds a second of all threads together, in a loop that stays in registers and uses the
// instruction of the compute type's products. Runs for about `seconds`.
double peak_multiply_adds_per_s(Team& team, const KernelTable& kernels, Compute compute,
                                double seconds = 0.2);

// Bytes a second that all threads together read from memory, from `bytes` (more than the caches)
// read once over and over for about `seconds`.
double read_bandwidth_bytes_per_s(Team& team, const KernelTable& kernels, std::size_t bytes,
                                  double seconds = 0.5);

}  // namespace terrace::inference
