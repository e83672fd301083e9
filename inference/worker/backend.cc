#include "inference/worker/backend.h"

#include "inference/cuda/cuda_llama.h"

namespace terrace::inference {

BackendChoice backend_choice(const config::WorkerBackend& backend) {
  using Kind = config::WorkerBackend::Kind;
  return {.kind = backend.kind == Kind::cuda        ? BackendChoice::Kind::cuda
                  : backend.kind == Kind::automatic ? BackendChoice::Kind::automatic
                                                    : BackendChoice::Kind::cpu,
          .ordinal = backend.cuda_ordinal};
}

Result<std::shared_ptr<const gpu::CudaRuntime>> open_backend(
    const BackendChoice& choice, const std::function<void(const std::string&)>& warn) {
  std::shared_ptr<const gpu::CudaRuntime> none;
  if (choice.kind == BackendChoice::Kind::cpu) return none;
  auto runtime = gpu::CudaRuntime::open(choice.ordinal);
  if (runtime || choice.kind == BackendChoice::Kind::cuda) return runtime;
  if (warn) warn("no GPU is used: " + runtime.error().message());
  return none;
}

Result<std::unique_ptr<Llama>> load_model(const gguf::File& file, const ModelOptions& options,
                                          const std::shared_ptr<const gpu::CudaRuntime>& cuda) {
  return cuda ? gpu::load_cuda_llama(file, options, cuda) : Llama::load(file, options);
}

}  // namespace terrace::inference
