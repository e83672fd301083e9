// What computes a model's passes: the CPU (cpu_backend.cc) or a GPU (inference/cuda). Everything
// above (which steps are valid, how they are cut into passes, sampling, scheduling, paging) is the
// same for all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "core/block_key.h"
#include "core/kv_layout.h"
#include "core/status.h"
#include "inference/cpu/isa.h"
#include "inference/model/kv_memory.h"
#include "inference/model/llama_config.h"

namespace terrace::inference {

// Consecutive tokens of one sequence in a pass.
struct PassPiece {
  std::span<const Token> tokens;
  std::uint32_t first_position = 0;
  // One address a block of KV from position 0 on, in the backend's memory. Sequences whose first
  // addresses are equal share these blocks, and a backend may read them once for all.
  std::span<std::byte* const> blocks;
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Computes the KV of the tokens of all pieces (at most max_rows of the description together) and,
  // for each row in `logit_rows` (ascending, rows counted over the pieces), its logits into
  // logits[i * vocabulary]. Everything is valid already. All is done when it returns. After an
  // error the KV of these tokens is undefined, and nothing else. One call at a time, any thread.
  virtual Status run(std::span<const PassPiece> pieces, std::span<const std::size_t> logit_rows,
                     float* logits) = 0;
  // Where the blocks lie that it reads and writes. Lives as long as the backend.
  virtual KvMemory& kv_memory() = 0;
};

// What a backend says of itself and its model.
struct BackendDescription {
  std::string name;  // "cpu", or the device: "cuda:0 (NVIDIA H200)"
  LlamaConfig config;
  KvGeometry geometry;
  Compute compute = Compute::bf16;
  Isa isa = Isa::portable;  // of what the CPU does
  int threads = 1;          // likewise
  std::uint64_t weight_bytes = 0;
  std::string numerics_id;
  std::size_t max_rows = 1;  // of one pass
};

}  // namespace terrace::inference
