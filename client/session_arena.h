// The device arena as one session of this process sees it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "client/arena_memory.h"
#include "client/client.h"
#include "core/shared_memory.h"
#include "core/unique_fd.h"

namespace terrace::client {

// Every slot keeps its session's alive: as long as one is left, this process may touch what the
// session held. Sessions of one boot share the mapping.
struct SessionArena {
  // Kept open until the mapping is gone: the daemon that comes next counts on it. Null where the
  // daemon has none.
  std::shared_ptr<const UniqueFd> claim;
  // One of them, or none where memory is not shared: the machine's memory, or a device's.
  std::shared_ptr<const SharedMapping> mapping;
  std::shared_ptr<const ArenaMemory> imported;
  std::string boot_id;
  std::uint64_t session_id = 0;

  bool has_memory() const { return mapping || imported; }
  std::byte* data() const { return mapping ? mapping->data() : imported->data(); }
  std::uint64_t size() const { return mapping ? mapping->size() : imported->size(); }
};

// Kernels load whole cache lines of a slot.
constexpr std::uint64_t cache_line_bytes = 64;

// The slot at `offset`; absent if it does not lie in the arena, or not at a cache line's start.
inline std::optional<Slot> slot_at(const std::shared_ptr<const SessionArena>& arena,
                                   std::uint64_t offset, std::uint64_t block_bytes) {
  if (!arena->has_memory()) return std::nullopt;
  const std::uint64_t size = arena->size();
  if (block_bytes > size || offset > size - block_bytes) return std::nullopt;
  if (offset % cache_line_bytes != 0) return std::nullopt;
  return Slot{arena->data() + offset, offset, arena};
}

}  // namespace terrace::client
