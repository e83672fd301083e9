// Memory of one's own for the KV of a sequence: what a caller without the cache computes into.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/kv_layout.h"
#include "core/status.h"
#include "inference/model/kv_memory.h"

namespace terrace::inference {

// Blocks of a geometry, each zeroed and aligned to 4 KiB. Grows at the end only; addresses stay
// valid until the object dies. One thread.
class PrivateKv {
 public:
  // `memory`, the backend's, must outlive it.
  explicit PrivateKv(const KvGeometry& geometry, KvMemory& memory = host_kv_memory())
      : geometry_(geometry), kv_memory_(memory) {}

  // Adds blocks until `tokens` tokens fit. resource_exhausted if memory is short; what was there
  // before stays.
  Status reserve(std::size_t tokens);

  // One address a block, as SequenceStep wants them. Valid until the next reserve().
  std::span<std::byte* const> blocks() const { return addresses_; }
  std::size_t capacity_tokens() const { return addresses_.size() * geometry_.block_tokens; }

 private:
  KvGeometry geometry_;
  KvMemory& kv_memory_;
  std::vector<std::shared_ptr<std::byte>> blocks_;
  std::vector<std::byte*> addresses_;
};

}  // namespace terrace::inference
