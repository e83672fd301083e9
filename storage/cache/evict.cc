// Making room. Whose copy goes is the choice of the policy among all sizes of blocks and, where
// tenants have quotas, of those who have more than their share. A block of another size makes no
// room at once: when enough of them are gone, those that are left are moved together (compact.cc).
#include "storage/cache/impl.h"

namespace terrace::storage {

Slot* TieredCache::Impl::take_device_slot(const SpaceEntry& space) {
  return take_slot(device_, space, [&](const Choice& choice) {
    return candidates_.earlier(candidates_.next(Tier::device, choice, Candidate::settled),
                               candidates_.next(Tier::device, choice, Candidate::droppable));
  });
}

Slot* TieredCache::Impl::take_host_slot(const Block& demoted) {
  return take_slot(*host_, space_of(demoted), [&](const Choice& choice) -> Block* {
    if (Block* victim = candidates_.next(Tier::host, choice, Candidate::settled)) return victim;
    // What the device tier has as well, if it will stay there for longer: else two blocks could
    // push each other out for ever.
    Block* twice = candidates_.next(Tier::host, choice, Candidate::droppable);
    if (!twice || !candidates_.before(demoted, *twice)) return nullptr;
    // One of another size makes no room while a copy into its slab is under way: it would go in
    // vain, be copied down again, and keep the slab from becoming free in its turn.
    const bool same_size = space_of(*twice).slot_bytes == space_of(demoted).slot_bytes;
    return same_size || demotions_in_flight_ == 0 ? twice : nullptr;
  });
}

Slot* TieredCache::Impl::take_host_slot_for_load(const SpaceEntry& space) {
  return take_slot(*host_, space, [&](const Choice& choice) {
    return candidates_.earlier(candidates_.next(Tier::host, choice, Candidate::settled),
                               candidates_.next(Tier::host, choice, Candidate::droppable));
  });
}

Slot* TieredCache::Impl::new_slot(ArenaTier& arena, const SpaceEntry& space) {
  Slot* const slot = arena.allocate(space);
  if (slot) tenants_.add(space.tenant, arena.tier(), static_cast<std::int64_t>(space.slot_bytes));
  return slot;
}

void TieredCache::Impl::free_slot(Slot& slot) {
  const SpaceEntry& space = *catalog_.space(slot.space);
  tenants_.add(space.tenant, slot.tier, -static_cast<std::int64_t>(space.slot_bytes));
  (slot.tier == Tier::device ? device_ : *host_).free(slot);
}

template <typename NextVictim>
Slot* TieredCache::Impl::take_slot(ArenaTier& arena, const SpaceEntry& space,
                                   NextVictim next_victim) {
  const Tier tier = arena.tier();
  const auto next = [&](const Choice& choice) {
    Block* victim = next_victim(choice);
    if (!victim && disk_failing())
      victim = candidates_.earlier(candidates_.next(tier, choice, Candidate::dirty),
                                   candidates_.next(tier, choice, Candidate::queued));
    return victim;
  };
  for (std::size_t evicted = 0; evicted <= max_evictions_a_turn; ++evicted) {
    Block* victim = nullptr;
    if (tenants_.left(space.tenant, tier) < space.slot_bytes) {
      victim = next({.tenant = space.tenant});
    } else {
      if (Slot* slot = new_slot(arena, space)) return slot;
      const std::uint64_t capacity = arena.arena().capacity_bytes();
      victim = fair_victim(tier, capacity, &space, {}, next);
      // Where a slab can be had by moving blocks, those of other sizes need not go.
      const bool look = evicted < 8 || evicted % 16 == 0;  // that looks at every slab
      if (victim && space_of(*victim).slot_bytes != space.slot_bytes && look &&
          clear_a_slab(arena, space))
        victim = fair_victim(tier, capacity, &space, {.size_class = space.size_class}, next);
    }
    if (!victim) {
      // What is in the way has its only copy here. Whatever its size and however much of it there
      // is: it must go down, or nothing would ever change.
      in_the_way_bytes_[static_cast<std::size_t>(tier)] = options_.slab_bytes;
      return nullptr;
    }
    evict(*victim, tier);
  }
  return nullptr;
}

// Whose block goes so that `space` (null: whoever) gets room in a full tier.
template <typename Next>
Block* TieredCache::Impl::fair_victim(Tier tier, std::uint64_t capacity_bytes,
                                      const SpaceEntry* space, Choice choice, Next next) {
  if (tenants_.size() == 1) return next(choice);
  for (const TenantId tenant : tenants_.over_share(tier, capacity_bytes)) {
    choice.tenant = tenant;
    if (Block* victim = next(choice)) return victim;
  }
  // Who has his share cannot push others out.
  choice.tenant.reset();
  if (space &&
      tenants_.used(space->tenant, tier) >= tenants_.share(space->tenant, tier, capacity_bytes))
    choice.tenant = space->tenant;
  return next(choice);
}

void TieredCache::Impl::evict(Block& block, Tier tier) {
  ++counters(tier).evictions;
  const int copies = block.in_device() + block.in_host() + block.on_disk();
  if (copies == 1) miss_notes_.note(block.key, MissReason::evicted);
  if (reuse_) reuse_->set_capacity(tier, counters(tier).blocks, catalog_.index().size());
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

Block* TieredCache::Impl::next_disk_victim(const SpaceEntry* space) {
  return fair_victim(Tier::disk, disk_->usage().capacity_bytes, space, {},
                     [this](const Choice& choice) {
                       return candidates_.next(Tier::disk, choice, Candidate::settled);
                     });
}

TieredCache::Impl::Room TieredCache::Impl::make_disk_room(std::uint64_t bytes,
                                                          const SpaceEntry* space) {
  const std::uint64_t capacity = disk_->usage().capacity_bytes;
  for (std::size_t evicted = 0;; ++evicted) {
    const bool over_quota = space && tenants_.left(space->tenant, Tier::disk) < bytes;
    if (!over_quota && disk_bytes_ + bytes <= capacity) return Room::made;
    if (evicted == max_evictions_a_turn) return Room::later;
    Block* victim =
        over_quota ? candidates_.next(Tier::disk, {.tenant = space->tenant}, Candidate::settled)
                   : next_disk_victim(space);
    if (!victim) return Room::none;
    evict(*victim, Tier::disk);
  }
}

void TieredCache::Impl::evict_disk_ahead() {
  if (!disk_) return;
  const auto capacity = static_cast<double>(disk_->usage().capacity_bytes);
  // Without blocks on their way the disk may stay as full as it is.
  if (write_queue_.empty() && static_cast<double>(disk_bytes_) <= capacity) return;
  (void)make_disk_room(static_cast<std::uint64_t>(capacity * disk_free_fraction), nullptr);
}

}  // namespace terrace::storage
