// Memory of one's own for the KV of a sequence: what a caller without the cache computes into.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "core/kv_layout.h"
#include "core/status.h"

namespace terrace::inference {

// Blocks of a geometry, each zeroed and aligned to 4 KiB. Grows at the end only; addresses stay
// valid until the object dies. One thread.
class PrivateKv {
 public:
  explicit PrivateKv(const KvGeometry& geometry) : geometry_(geometry) {}

  // Adds blocks until `tokens` tokens fit. resource_exhausted if memory is short; what was there
  // before stays.
  Status reserve(std::size_t tokens);

  // One address a block, as SequenceStep wants them. Valid until the next reserve().
  std::span<std::byte* const> blocks() const { return addresses_; }
  std::size_t capacity_tokens() const { return addresses_.size() * geometry_.block_tokens; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  KvGeometry geometry_;
  std::vector<std::unique_ptr<std::byte, Free>> memory_;
  std::vector<std::byte*> addresses_;
};

}  // namespace terrace::inference
