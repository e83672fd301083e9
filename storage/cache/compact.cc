// Giving slabs to another size of blocks: the few blocks that are left in a slab move together into
// other slabs of their size, so that it is free for whoever needs it.
#include <algorithm>

#include "storage/cache/impl.h"

namespace terrace::storage {

// Whether a slab for slots of `space` is being cleared, maybe from now on.
bool TieredCache::Impl::clear_a_slab(ArenaTier& arena, const SpaceEntry& space) {
  Clearing& clearing = clearing_[static_cast<std::size_t>(arena.tier())];
  if (clearing.slab) return true;
  if (clock_.monotonic_ns() < clearing.not_before_ns) return false;
  for (const std::uint32_t slab :
       arena.arena().emptiest_slabs(space.slot_bytes, max_slabs_looked_at)) {
    std::vector<Slot*> slots = arena.slots_of_slab(slab);
    const bool all_can_move = std::ranges::all_of(slots, [](const Slot* slot) {
      return slot->state == SlotState::copy && slot->holders == 0 && slot->busy == 0;
    });
    if (!all_can_move) continue;
    arena.close_slab(slab);
    clearing.slab = slab;
    for (const Slot* slot : slots) clearing.offsets.push_back(slot->offset);
    move_blocks(arena);
    return clearing.slab.has_value();
  }
  return false;
}

void TieredCache::Impl::move_blocks(ArenaTier& arena) {
  Clearing& clearing = clearing_[static_cast<std::size_t>(arena.tier())];
  while (!clearing.offsets.empty() && clearing.moves < max_moves_in_flight) {
    Slot* const from = arena.find(clearing.offsets.back());
    clearing.offsets.pop_back();
    if (!from) continue;  // evicted meanwhile
    Slot* const to = from->state == SlotState::copy && from->holders == 0 && from->busy == 0
                         ? new_slot(arena, *catalog_.space(from->space))
                         : nullptr;
    if (!to) {
      clearing.offsets.clear();  // somebody wants it, or there is no room any more
      clearing.failed = true;
      break;
    }
    to->state = SlotState::moving;
    to->busy = 1;
    begin_use(*from);
    ++clearing.moves;
    const Ticket ticket = new_ticket({Operation::Kind::move, from->block, from, to});
    accelerator_.copy_async(ticket, bytes_of(*to).data(), bytes_of(*from));
  }
  if (clearing.moves > 0) return;
  arena.open_slab(*clearing.slab);
  clearing.slab.reset();
  if (std::exchange(clearing.failed, false))
    clearing.not_before_ns = clock_.monotonic_ns() + first_retry_ns;
}

void TieredCache::Impl::finish_move(const Operation& operation, const Status& status,
                                    std::uint64_t checksum) {
  Slot& from = *operation.slot;
  Slot& to = *operation.other;
  ArenaTier& arena = from.tier == Tier::device ? device_ : *host_;
  Clearing& clearing = clearing_[static_cast<std::size_t>(from.tier)];
  --clearing.moves;
  to.busy = 0;
  const bool good = status.ok() && checksum == from.checksum;
  if (good && from.block && from.holders == 0 && from.busy == 1) {
    Block& block = *from.block;
    candidates_.withdraw(block, space_of(block).shelf, from.tier);
    to.state = SlotState::copy;
    to.block = &block;
    to.checksum = checksum;
    to.verified = true;
    // Filled here: whoever sealed the block has no more right to this slot than others.
    to.session = 0;
    (from.tier == Tier::device ? block.device : block.host) = &to;
    from.block = nullptr;
    from.busy = 0;
    free_slot(from);
    refresh(block);
  } else {
    clearing.failed = true;
    clearing.offsets.clear();
    free_slot(to);
    if (!status.ok()) ++counters(from.tier).failures;
    if (status.ok() && !good && from.block) quarantine(from);
    end_use(from);
  }
  move_blocks(arena);
}

}  // namespace terrace::storage
