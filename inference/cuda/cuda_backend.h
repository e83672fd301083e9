// A GPU as a backend: passes through the layers on one stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "inference/cuda/cuda_kv_memory.h"
#include "inference/cuda/cuda_weights.h"
#include "inference/cuda/matmul.h"
#include "inference/cuda/pass_graphs.h"
#include "inference/cuda/pass_plan.h"
#include "inference/model/backend.h"

namespace terrace::inference::gpu {

struct CudaSettings {
  LlamaConfig config;
  KvGeometry geometry;
  std::size_t max_rows = 1;  // of one pass
  SharedPrefixes shared_prefixes = SharedPrefixes::together;
};

// What a model takes of the device's memory beside KV, before anything of it is taken.
struct CudaMemoryNeed {
  std::uint64_t weights = 0, activations = 0, logits = 0, partials = 0, products = 0;

  std::uint64_t total() const { return weights + activations + logits + partials + products; }
};
CudaMemoryNeed memory_need(const CudaSettings& settings, std::uint64_t weight_bytes);

class CudaBackend final : public Backend {
 public:
  // resource_exhausted, which names what it is for, if the device's memory is short.
  static Result<std::unique_ptr<CudaBackend>> create(std::shared_ptr<const CudaRuntime> runtime,
                                                     const CudaSettings& settings,
                                                     CudaWeights weights,
                                                     std::vector<double> rope_frequencies);

  Status run(std::span<const PassPiece> pieces, std::span<const std::size_t> logit_rows,
             float* logits) override;
  KvMemory& kv_memory() override { return *kv_memory_; }

 private:
  CudaBackend(std::shared_ptr<const CudaRuntime> runtime, const CudaSettings& settings,
              CudaWeights weights, std::vector<double> rope_frequencies, Stream stream);
  Status allocate();
  Status send_plan();
  class Launcher;
  Status enqueue_layers();
  Status enqueue_head(std::size_t first, std::size_t rows);
  void attention_layer(Launcher& launch, std::uint32_t index);
  void feed_forward_layer(Launcher& launch, std::uint32_t index);
  // The device address of a part of the plan.
  template <typename T>
  const T* sent(std::size_t offset) const {
    return reinterpret_cast<const T*>(plan_memory_.address() + offset);
  }

  std::shared_ptr<const CudaRuntime> runtime_;
  CudaSettings settings_;
  CudaWeights weights_;
  KvStrides strides_;
  PassPlan plan_;
  std::unique_ptr<Kernels> kernels_;
  std::unique_ptr<Matmul> matmul_;
  std::unique_ptr<CudaKvMemory> kv_memory_;
  Stream stream_;
  DeviceBuffer activations_, logits_, partials_, plan_memory_;
  PinnedBuffer staged_plan_;
  // In activations_:
  DeviceAddress residual_ = 0;  // F32 [row][embedding]
  DeviceAddress wide_ = 0;      // F32 [row][query, key, value] or [row][gate, up]
  DeviceAddress operand_ = 0;   // BF16 [row][input of the next product]
  DeviceAddress queries_ = 0;   // BF16 [row][head][padded_dim]
  PassGraphs graphs_;
};

}  // namespace terrace::inference::gpu
