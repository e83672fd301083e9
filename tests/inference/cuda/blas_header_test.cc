// The declarations of inference/cuda/blas_lt.h against those of the toolkit. Compiled where there
// is one.
#include <cublasLt.h>
#include <gtest/gtest.h>

#include "inference/cuda/blas_lt.h"
#include "tests/storage/cuda/same_call.h"

namespace terrace::inference::gpu {
namespace {

using cuda::SameCall;

#define TERRACE_SAME_BLAS_CALL(member, function) \
  static_assert(SameCall<decltype(BlasLtApi::member), decltype(&::function)>::value)
TERRACE_SAME_BLAS_CALL(create, cublasLtCreate);
TERRACE_SAME_BLAS_CALL(destroy, cublasLtDestroy);
TERRACE_SAME_BLAS_CALL(get_version, cublasLtGetVersion);
TERRACE_SAME_BLAS_CALL(get_status_name, cublasLtGetStatusName);
TERRACE_SAME_BLAS_CALL(matmul_create, cublasLtMatmulDescCreate);
TERRACE_SAME_BLAS_CALL(matmul_destroy, cublasLtMatmulDescDestroy);
TERRACE_SAME_BLAS_CALL(matmul_set_attribute, cublasLtMatmulDescSetAttribute);
TERRACE_SAME_BLAS_CALL(layout_create, cublasLtMatrixLayoutCreate);
TERRACE_SAME_BLAS_CALL(layout_destroy, cublasLtMatrixLayoutDestroy);
TERRACE_SAME_BLAS_CALL(preference_create, cublasLtMatmulPreferenceCreate);
TERRACE_SAME_BLAS_CALL(preference_destroy, cublasLtMatmulPreferenceDestroy);
TERRACE_SAME_BLAS_CALL(preference_set_attribute, cublasLtMatmulPreferenceSetAttribute);
TERRACE_SAME_BLAS_CALL(find_algorithms, cublasLtMatmulAlgoGetHeuristic);
TERRACE_SAME_BLAS_CALL(matmul, cublasLtMatmul);

static_assert(sizeof(MatmulAlgorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(HeuristicResult) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(HeuristicResult, workspace_bytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(blas_success == CUBLAS_STATUS_SUCCESS);
static_assert(type_f32 == CUDA_R_32F && type_bf16 == CUDA_R_16BF);
static_assert(compute_f32 == CUBLAS_COMPUTE_32F);
static_assert(operation_transposed == CUBLAS_OP_T);
static_assert(matmul_transpose_a == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(preference_workspace_bytes == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(preference_reduction_schemes == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
static_assert(reduction_none == CUBLASLT_REDUCTION_SCHEME_NONE);

TEST(BlasHeader, AgreesWithTheToolkit) { SUCCEED(); }

}  // namespace
}  // namespace terrace::inference::gpu
