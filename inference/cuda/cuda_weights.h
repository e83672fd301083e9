// The weights of a llama model in a GPU's memory: matrices in BF16, [output][input], vectors in
// F32.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/status.h"
#include "inference/cpu/team.h"
#include "inference/cuda/cuda_runtime.h"
#include "inference/cuda/device_buffer.h"
#include "inference/model/llama_tensors.h"

namespace terrace::inference::gpu {

// Matrices that share their input are one: q, k and v; gate and up. A bias is 0 where there is
// none.
struct CudaLayerWeights {
  DeviceAddress attention_norm = 0, query_key_value = 0, attention_output = 0;
  DeviceAddress feed_forward_norm = 0, gate_up = 0, down = 0;
  DeviceAddress query_key_value_bias = 0, attention_output_bias = 0, gate_up_bias = 0,
                down_bias = 0;
};

struct CudaWeights {
  DeviceBuffer memory;
  DeviceAddress embedding = 0, output_norm = 0, head = 0;  // the head may be the embedding
  std::vector<CudaLayerWeights> layers;
};

// What loading takes of the device's memory.
std::uint64_t cuda_weight_bytes(const LlamaTensors& tensors);

// Expands the tensors on all threads of the team and sends them. `progress` as in ModelOptions.
// resource_exhausted if the device's memory is short.
Result<CudaWeights> load_cuda_weights(const LlamaTensors& tensors, const CudaRuntime& runtime,
                                      Team& team, const std::function<void(double)>& progress);

}  // namespace terrace::inference::gpu
