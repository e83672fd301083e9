// The memory for KV blocks outside of any arena that the sequences of a process may take together.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "core/status.h"
#include "inference/model/kv_memory.h"
#include "inference/paged_kv/kv_block.h"

namespace terrace::inference {

// Thread-safe. Must outlive the blocks it gave out.
class PrivateMemory {
 public:
  // `memory`, the backend's, must outlive it.
  explicit PrivateMemory(KvMemory& memory = host_kv_memory(),
                         std::uint64_t limit_bytes = std::numeric_limits<std::uint64_t>::max())
      : memory_(memory), limit_bytes_(limit_bytes) {}

  // A zeroed block, aligned to 4 KiB. resource_exhausted at the limit, or if there is no memory.
  Result<KvBlockRef> allocate(std::size_t bytes);

  // Where its blocks lie.
  KvMemory& kv_memory() const { return memory_; }
  std::uint64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  std::uint64_t limit_bytes() const { return limit_bytes_; }

 private:
  KvMemory& memory_;
  const std::uint64_t limit_bytes_;
  std::atomic<std::uint64_t> used_bytes_{0};
};

}  // namespace terrace::inference
