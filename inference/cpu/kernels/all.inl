// All kernels, over the vectors that a simd_*.h included before defines. Everything lies in
// unnamed namespaces: two instruction sets share no function that the linker could merge.
#pragma once

#include <cstddef>
#include <cstdint>

#include "inference/cpu/kernel_table.h"

// These build on each other in this order.
// clang-format off
#include "inference/cpu/kernels/tile.h"
#include "inference/cpu/kernels/unpack.h"
#include "inference/cpu/kernels/linear.inl"
#include "inference/cpu/kernels/elementwise.inl"
#include "inference/cpu/kernels/attention.inl"
#include "inference/cpu/kernels/probe.inl"
#include "inference/cpu/kernels/table.inl"
// clang-format on
