// Memory for KV blocks, where a backend computes: the machine's or a GPU's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/kv_layout.h"
#include "core/status.h"

namespace terrace::inference {

// Thread-safe. Addresses are the backend's: the CPU may not be able to touch them. Each method has
// done its work when it returns.
class KvMemory {
 public:
  virtual ~KvMemory() = default;

  // A zeroed block, aligned to 4 KiB, which must not outlive this object. resource_exhausted if
  // there is no memory.
  virtual Result<std::shared_ptr<std::byte>> allocate(std::size_t bytes) = 0;
  virtual Status zero(std::byte* block, std::size_t bytes) = 0;
  // Copies the KV of the first `tokens` tokens of one block to another that is zeroed: it is then
  // as if they had been computed into it, nothing of later tokens is copied.
  virtual Status copy_leading_tokens(const KvGeometry& geometry, std::uint32_t tokens,
                                     const std::byte* from, std::byte* to) = 0;
};

// The machine's memory; it has no state.
KvMemory& host_kv_memory();

}  // namespace terrace::inference
