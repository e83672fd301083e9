// The few calls of cuBLASLt that Terrace makes, looked up when the program runs, as those of the
// driver are (core/cuda/driver_api.h): a table of functions, so that tests put a stand-in in the
// library's place. The types and numbers are those of cublasLt.h; a test compares them where that
// header is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "core/cuda/driver_api.h"
#include "core/status.h"

namespace terrace::inference::gpu {

using cuda::DeviceAddress;
using cuda::StreamHandle;

using BlasStatus = int;
constexpr BlasStatus blas_success = 0;

using LtHandle = struct LtContext*;
using MatmulHandle = struct LtMatmulDescription*;
using LayoutHandle = struct LtMatrixLayout*;
using PreferenceHandle = struct LtMatmulPreference*;

struct MatmulAlgorithm {
  std::uint64_t data[8];
};
struct HeuristicResult {
  MatmulAlgorithm algorithm;
  std::size_t workspace_bytes;
  BlasStatus state;
  float waves;
  int reserved[4];
};

constexpr int type_f32 = 0, type_bf16 = 14;
constexpr int compute_f32 = 68;
constexpr int operation_transposed = 1;
constexpr int matmul_transpose_a = 3;
constexpr int preference_workspace_bytes = 1;
constexpr int preference_reduction_schemes = 3;
constexpr std::uint32_t reduction_none = 0;

// Each member is the library's function of the name in the comment.
struct BlasLtApi {
  BlasStatus (*create)(LtHandle* handle);           // cublasLtCreate
  BlasStatus (*destroy)(LtHandle handle);           // cublasLtDestroy
  std::size_t (*get_version)();                     // cublasLtGetVersion
  const char* (*get_status_name)(BlasStatus code);  // cublasLtGetStatusName
  BlasStatus (*matmul_create)(MatmulHandle*, int compute_type, int scale_type);
  BlasStatus (*matmul_destroy)(MatmulHandle);
  BlasStatus (*matmul_set_attribute)(MatmulHandle, int attribute, const void*, std::size_t bytes);
  // Column-major, `pitch` elements from a column to the next.
  BlasStatus (*layout_create)(LayoutHandle*, int type, std::uint64_t rows, std::uint64_t columns,
                              std::int64_t pitch);
  BlasStatus (*layout_destroy)(LayoutHandle);
  BlasStatus (*preference_create)(PreferenceHandle*);
  BlasStatus (*preference_destroy)(PreferenceHandle);
  BlasStatus (*preference_set_attribute)(PreferenceHandle, int attribute, const void*,
                                         std::size_t bytes);
  BlasStatus (*find_algorithms)(LtHandle, MatmulHandle, LayoutHandle a, LayoutHandle b,
                                LayoutHandle c, LayoutHandle d, PreferenceHandle, int wanted,
                                HeuristicResult* results, int* found);
  // d = alpha op(a) b + beta c.
  BlasStatus (*matmul)(LtHandle, MatmulHandle, const void* alpha, const void* a, LayoutHandle,
                       const void* b, LayoutHandle, const void* beta, const void* c, LayoutHandle,
                       void* d, LayoutHandle, const MatmulAlgorithm*, void* workspace,
                       std::size_t workspace_bytes, StreamHandle);
};

// The library of this machine. unavailable, with a reason for people, where there is none. It stays
// loaded until the process ends.
Result<std::unique_ptr<const BlasLtApi>> load_blas_lt();

// ok, or an io_error. `what` says what was tried.
Status to_status(const BlasLtApi& api, BlasStatus code, std::string_view what);

}  // namespace terrace::inference::gpu
