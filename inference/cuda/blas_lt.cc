#include "inference/cuda/blas_lt.h"

#include <dlfcn.h>

#include <string>

namespace terrace::inference::gpu {

namespace {

// Of CUDA 13 and 12, newest first. Nothing that is called here differs between them.
constexpr const char* blas_libraries[] = {"libcublasLt.so.13", "libcublasLt.so.12"};

class BlasLookup {
 public:
  explicit BlasLookup(void* library) : library_(library) {}

  template <typename Function>
  void operator()(Function& function, const char* name) {
    void* const found = ::dlsym(library_, name);
    if (!found && missing_.empty()) missing_ = name;
    function = reinterpret_cast<Function>(found);
  }
  const std::string& missing() const { return missing_; }

 private:
  void* library_;
  std::string missing_;
};

}  // namespace

Result<std::unique_ptr<const BlasLtApi>> load_blas_lt() {
  void* library = nullptr;
  std::string why;
  for (const char* name : blas_libraries) {
    library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library) break;
    why += (why.empty() ? "" : "; ") + std::string(::dlerror());
  }
  if (!library) return error(StatusCode::unavailable, "there is no cuBLASLt (" + why + ")");
  auto api = std::make_unique<BlasLtApi>();
  BlasLookup look_up(library);
  look_up(api->create, "cublasLtCreate");
  look_up(api->destroy, "cublasLtDestroy");
  look_up(api->get_version, "cublasLtGetVersion");
  look_up(api->get_status_name, "cublasLtGetStatusName");
  look_up(api->matmul_create, "cublasLtMatmulDescCreate");
  look_up(api->matmul_destroy, "cublasLtMatmulDescDestroy");
  look_up(api->matmul_set_attribute, "cublasLtMatmulDescSetAttribute");
  look_up(api->layout_create, "cublasLtMatrixLayoutCreate");
  look_up(api->layout_destroy, "cublasLtMatrixLayoutDestroy");
  look_up(api->preference_create, "cublasLtMatmulPreferenceCreate");
  look_up(api->preference_destroy, "cublasLtMatmulPreferenceDestroy");
  look_up(api->preference_set_attribute, "cublasLtMatmulPreferenceSetAttribute");
  look_up(api->find_algorithms, "cublasLtMatmulAlgoGetHeuristic");
  look_up(api->matmul, "cublasLtMatmul");
  if (!look_up.missing().empty())
    return error(StatusCode::unavailable, "cuBLASLt has no " + look_up.missing());
  return std::unique_ptr<const BlasLtApi>(std::move(api));
}

Status to_status(const BlasLtApi& api, BlasStatus code, std::string_view what) {
  if (code == blas_success) return {};
  const char* const name = api.get_status_name(code);
  return {StatusCode::io_error,
          std::string(what) + ": " + (name ? name : "cuBLASLt error " + std::to_string(code))};
}

}  // namespace terrace::inference::gpu
