// A tier that is an arena: its memory, which slots of it are in use, and what each holds.
#pragma once

#include <memory>
#include <new>
#include <span>
#include <unordered_map>

#include "storage/arena/slab_arena.h"
#include "storage/catalog/catalog.h"
#include "storage/device/accelerator.h"

namespace terrace::storage {

class ArenaTier {
 public:
  // Slots come from `pool`, which outlives the tier.
  ArenaTier(Tier tier, std::unique_ptr<DeviceMemory> memory, std::uint64_t slab_bytes, Pool& pool)
      : tier_(tier), memory_(std::move(memory)), arena_(memory_->size(), slab_bytes), pool_(pool) {}
  ~ArenaTier() {
    for (const auto& [offset, slot] : slots_) destroy(slot);
  }
  ArenaTier(const ArenaTier&) = delete;
  ArenaTier& operator=(const ArenaTier&) = delete;

  // For a tier whose memory comes later than itself: no slot is in use.
  void set_memory(std::unique_ptr<DeviceMemory> memory, std::uint64_t slab_bytes) {
    memory_ = std::move(memory);
    arena_ = SlabArena(memory_->size(), slab_bytes);
  }

  // A slot for a block of `space`, null if there is none.
  Slot* allocate(const SpaceEntry& space) {
    const auto offset = arena_.allocate(space.slot_bytes);
    if (!offset) return nullptr;
    void* const place = pool_.allocate();
    if (!place) {
      arena_.free(*offset);
      return nullptr;
    }
    auto* const slot = new (place) Slot;
    slot->offset = *offset;
    slot->tier = tier_;
    slot->space = space.id;
    slots_.emplace(*offset, slot);
    return slot;
  }
  // Nobody holds it and nothing is under way. Frees the object, too.
  void free(Slot& slot) {
    arena_.free(slot.offset);
    slots_.erase(slot.offset);
    destroy(&slot);
  }
  Slot* find(std::uint64_t offset) {
    const auto found = slots_.find(offset);
    return found == slots_.end() ? nullptr : found->second;
  }

  // Those in use.
  std::vector<Slot*> slots_of_slab(std::uint32_t slab) {
    const SlabArena::Slots range = arena_.slots_of(slab);
    std::vector<Slot*> slots;
    for (std::uint32_t i = 0; i < range.count; ++i)
      if (Slot* slot = find(range.first + i * range.slot_bytes)) slots.push_back(slot);
    return slots;
  }
  void close_slab(std::uint32_t slab) { arena_.close(slab); }
  void open_slab(std::uint32_t slab) { arena_.open(slab); }

  Tier tier() const { return tier_; }
  std::span<std::byte> bytes(const Slot& slot, const SpaceEntry& space) const {
    return {memory_->data() + slot.offset, space.descriptor.block_bytes};
  }
  const DeviceMemory& memory() const { return *memory_; }
  const SlabArena& arena() const { return arena_; }
  const std::unordered_map<std::uint64_t, Slot*>& slots() const { return slots_; }

 private:
  void destroy(Slot* slot) {
    slot->~Slot();
    pool_.free(slot);
  }

  Tier tier_;
  std::unique_ptr<DeviceMemory> memory_;
  SlabArena arena_;
  Pool& pool_;
  std::unordered_map<std::uint64_t, Slot*> slots_;  // those in use
};

}  // namespace terrace::storage
