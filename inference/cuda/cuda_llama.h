// Loading a model for a GPU.
#pragma once

#include <memory>

#include "inference/cuda/cuda_runtime.h"
#include "inference/gguf/gguf_file.h"
#include "inference/model/llama.h"

namespace terrace::inference::gpu {

// Loads the weights of `file`, as Llama::load does for the CPU, into the memory of the runtime's
// device. Before anything is loaded, options.notice is told what will be taken of it. Beside the
// errors there: unimplemented for what these kernels cannot (F32, heads of more than 256 values);
// resource_exhausted, with all the bytes, if the device has less memory left than the model takes.
Result<std::unique_ptr<Llama>> load_cuda_llama(const gguf::File& file, const ModelOptions& options,
                                               std::shared_ptr<const CudaRuntime> runtime);

}  // namespace terrace::inference::gpu
