// Making room.
#include "storage/cache/impl.h"

namespace terrace::storage {

Slot* TieredCache::Impl::take_slot(ArenaTier& arena, const SpaceEntry& space) {
  const Tier tier = &arena == &device_ ? Tier::device : Tier::host;
  for (std::size_t evicted = 0; evicted <= max_evictions_a_turn; ++evicted) {
    if (Slot* slot = arena.allocate(space)) return slot;
    Block* victim = next_victim(tier, space.size_class);
    if (!victim) return nullptr;
    evict(*victim, tier);
  }
  return nullptr;
}

// The block that should leave an arena so that one of `size_class` finds room: the one that goes
// first of all sizes. Where that is of another size it makes no room at once, but its slab will be
// free when all in it are gone, and they are used less than anything of this size.
Block* TieredCache::Impl::next_victim(Tier tier, std::uint32_t size_class) const {
  if (Block* victim = candidates_.earlier(candidates_.next(tier, Candidate::settled),
                                          candidates_.next(tier, Candidate::droppable)))
    return victim;
  if (!disk_failing()) return nullptr;
  if (Block* victim = candidates_.next(tier, size_class, Candidate::dirty)) return victim;
  return candidates_.next(tier, Candidate::dirty);
}

void TieredCache::Impl::evict(Block& block, Tier tier) {
  ++counters(tier).evictions;
  if (tier == Tier::disk) {
    // Gone from the disk as the least used of all there: not to be written again at once.
    block.disk_declined = true;
    disk_->erase(block.key);
    set_disk(block, DiskCopy::none, 0);
    return;
  }
  Slot& slot = *(tier == Tier::device ? block.device : block.host);
  detach(slot);
  free_slot(slot);
}

bool TieredCache::Impl::make_disk_room(std::uint64_t bytes) {
  const std::uint64_t capacity = disk_->usage().capacity_bytes;
  for (std::size_t evicted = 0; disk_bytes_ + bytes > capacity; ++evicted) {
    Block* victim = candidates_.next(Tier::disk, Candidate::settled);
    if (!victim || evicted >= max_evictions_a_turn) return false;
    evict(*victim, Tier::disk);
  }
  return true;
}

void TieredCache::Impl::evict_disk_ahead() {
  if (!disk_) return;
  const auto capacity = static_cast<double>(disk_->usage().capacity_bytes);
  // Without blocks on their way the disk may stay as full as it is.
  if (write_queue_.empty() && static_cast<double>(disk_bytes_) <= capacity) return;
  make_disk_room(static_cast<std::uint64_t>(capacity * disk_free_fraction));
}

}  // namespace terrace::storage
