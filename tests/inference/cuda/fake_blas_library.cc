// The stand-in for cuBLASLt as a library of its own, beside that for the driver: programs find both
// as they would find the real ones. Loading it gives the driver's stand-in its kernels.
#include "tests/inference/cuda/fake_gpu.h"

using namespace terrace::inference::gpu;

namespace {
const BlasLtApi& table() {
  static const BlasLtApi api = fake::blas_lt();
  return api;
}
[[gnu::constructor]] void loaded() { fake::add_kernels(); }
}  // namespace

#pragma GCC diagnostic ignored "-Wmissing-declarations"
extern "C" {
BlasStatus cublasLtCreate(LtHandle* handle) { return table().create(handle); }
BlasStatus cublasLtDestroy(LtHandle handle) { return table().destroy(handle); }
std::size_t cublasLtGetVersion() { return table().get_version(); }
const char* cublasLtGetStatusName(BlasStatus code) { return table().get_status_name(code); }
BlasStatus cublasLtMatmulDescCreate(MatmulHandle* matmul, int compute, int scale) {
  return table().matmul_create(matmul, compute, scale);
}
BlasStatus cublasLtMatmulDescDestroy(MatmulHandle matmul) { return table().matmul_destroy(matmul); }
BlasStatus cublasLtMatmulDescSetAttribute(MatmulHandle matmul, int attribute, const void* value,
                                          std::size_t bytes) {
  return table().matmul_set_attribute(matmul, attribute, value, bytes);
}
BlasStatus cublasLtMatrixLayoutCreate(LayoutHandle* layout, int type, std::uint64_t rows,
                                      std::uint64_t columns, std::int64_t pitch) {
  return table().layout_create(layout, type, rows, columns, pitch);
}
BlasStatus cublasLtMatrixLayoutDestroy(LayoutHandle layout) {
  return table().layout_destroy(layout);
}
BlasStatus cublasLtMatmulPreferenceCreate(PreferenceHandle* preference) {
  return table().preference_create(preference);
}
BlasStatus cublasLtMatmulPreferenceDestroy(PreferenceHandle preference) {
  return table().preference_destroy(preference);
}
BlasStatus cublasLtMatmulPreferenceSetAttribute(PreferenceHandle preference, int attribute,
                                                const void* value, std::size_t bytes) {
  return table().preference_set_attribute(preference, attribute, value, bytes);
}
BlasStatus cublasLtMatmulAlgoGetHeuristic(LtHandle handle, MatmulHandle matmul, LayoutHandle a,
                                          LayoutHandle b, LayoutHandle c, LayoutHandle d,
                                          PreferenceHandle preference, int wanted,
                                          HeuristicResult* results, int* found) {
  return table().find_algorithms(handle, matmul, a, b, c, d, preference, wanted, results, found);
}
BlasStatus cublasLtMatmul(LtHandle handle, MatmulHandle matmul, const void* alpha, const void* a,
                          LayoutHandle as, const void* b, LayoutHandle bs, const void* beta,
                          const void* c, LayoutHandle cs, void* d, LayoutHandle ds,
                          const MatmulAlgorithm* algorithm, void* workspace,
                          std::size_t workspace_bytes, StreamHandle stream) {
  return table().matmul(handle, matmul, alpha, a, as, b, bs, beta, c, cs, d, ds, algorithm,
                        workspace, workspace_bytes, stream);
}
}
