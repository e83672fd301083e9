// A tier that is an arena: its memory, which slots of it are in use, and what each holds.
#pragma once

#include <memory>
#include <span>
#include <unordered_map>

#include "storage/arena/slab_arena.h"
#include "storage/catalog/catalog.h"
#include "storage/device/accelerator.h"

namespace terrace::storage {

class ArenaTier {
 public:
  ArenaTier(Tier tier, std::unique_ptr<DeviceMemory> memory, std::uint64_t slab_bytes)
      : tier_(tier), memory_(std::move(memory)), arena_(memory_->size(), slab_bytes) {}

  // A slot for a block of `space`, null if there is none.
  Slot* allocate(const SpaceEntry& space) {
    const auto offset = arena_.allocate(space.slot_bytes);
    if (!offset) return nullptr;
    Slot& slot = slots_[*offset];
    slot.offset = *offset;
    slot.tier = tier_;
    slot.space = space.id;
    return &slot;
  }
  // Nobody holds it and nothing is under way. Frees the object, too.
  void free(const Slot& slot) {
    const std::uint64_t offset = slot.offset;
    arena_.free(offset);
    slots_.erase(offset);
  }
  Slot* find(std::uint64_t offset) {
    const auto found = slots_.find(offset);
    return found == slots_.end() ? nullptr : &found->second;
  }

  std::span<std::byte> bytes(const Slot& slot, const SpaceEntry& space) const {
    return {memory_->data() + slot.offset, space.descriptor.block_bytes};
  }
  const DeviceMemory& memory() const { return *memory_; }
  const SlabArena& arena() const { return arena_; }
  const std::unordered_map<std::uint64_t, Slot>& slots() const { return slots_; }

 private:
  Tier tier_;
  std::unique_ptr<DeviceMemory> memory_;
  SlabArena arena_;
  std::unordered_map<std::uint64_t, Slot> slots_;  // those in use
};

}  // namespace terrace::storage
