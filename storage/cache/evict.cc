// Making room. Whose copy goes is the choice of the policy among all sizes of blocks: one of
// another size makes no room at once, but its slab is free when all in it are gone, and they were
// to go first anyway.
#include "storage/cache/impl.h"

namespace terrace::storage {

Slot* TieredCache::Impl::take_device_slot(const SpaceEntry& space) {
  return take_slot(device_, space, [&] {
    return candidates_.earlier(candidates_.next(Tier::device, Candidate::settled),
                               candidates_.next(Tier::device, Candidate::droppable));
  });
}

Slot* TieredCache::Impl::take_host_slot(const Block& demoted) {
  return take_slot(*host_, space_of(demoted), [&]() -> Block* {
    if (Block* victim = candidates_.next(Tier::host, Candidate::settled)) return victim;
    // What the device tier has as well, if it will stay there for longer: else two blocks could
    // push each other out for ever.
    Block* twice = candidates_.next(Tier::host, Candidate::droppable);
    return twice && twice->recency > demoted.recency ? twice : nullptr;
  });
}

template <typename NextVictim>
Slot* TieredCache::Impl::take_slot(ArenaTier& arena, const SpaceEntry& space,
                                   NextVictim next_victim) {
  const Tier tier = &arena == &device_ ? Tier::device : Tier::host;
  for (std::size_t evicted = 0; evicted <= max_evictions_a_turn; ++evicted) {
    if (Slot* slot = arena.allocate(space)) return slot;
    Block* victim = next_victim();
    if (!victim && disk_failing())
      victim = candidates_.earlier(candidates_.next(tier, Candidate::dirty),
                                   candidates_.next(tier, Candidate::queued));
    if (!victim) return nullptr;
    evict(*victim, tier);
  }
  return nullptr;
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
