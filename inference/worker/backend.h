// Which backend computes a model.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "config/worker_config.h"
#include "inference/cuda/cuda_runtime.h"
#include "inference/gguf/gguf_file.h"
#include "inference/model/llama.h"

namespace terrace::inference {

BackendChoice backend_choice(const config::WorkerBackend& backend);

// What the chosen backend needs beside the model; null: the CPU computes. unavailable, with a
// reason for people, if a GPU was asked for that cannot be used; where it was only looked for,
// `warn` (may be empty) is told.
Result<std::shared_ptr<const gpu::CudaRuntime>> open_backend(
    const BackendChoice& choice, const std::function<void(const std::string&)>& warn);

// Llama::load, or its like for the GPU that open_backend() gave.
Result<std::unique_ptr<Llama>> load_model(const gguf::File& file, const ModelOptions& options,
                                          const std::shared_ptr<const gpu::CudaRuntime>& cuda);

}  // namespace terrace::inference
