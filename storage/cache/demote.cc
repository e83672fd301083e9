// Copying down ahead of need, so that whoever needs a slot finds some that can go without I/O: from
// device to host, and to disk what was not written before.
#include <algorithm>
#include <cmath>

#include "storage/cache/impl.h"

namespace terrace::storage {

std::uint64_t TieredCache::Impl::slots_for(const ArenaTier& arena, const Choice& choice) const {
  const std::uint64_t slot_bytes = catalog_.slot_bytes(*choice.size_class);
  const std::uint64_t slots = arena.arena().total_slots(slot_bytes);
  if (!choice.tenant) return slots;
  return std::min(slots, tenants_.quota(*choice.tenant, arena.tier()) / slot_bytes);
}

std::uint64_t TieredCache::Impl::free_slots_for(const ArenaTier& arena,
                                                const Choice& choice) const {
  const std::uint64_t slot_bytes = catalog_.slot_bytes(*choice.size_class);
  const std::uint64_t slots = arena.arena().free_slots(slot_bytes);
  if (!choice.tenant) return slots;
  return std::min(slots, tenants_.left(*choice.tenant, arena.tier()) / slot_bytes);
}

bool TieredCache::Impl::short_of_clean(Tier tier, const Choice& choice, std::uint64_t clean,
                                       std::uint64_t total) {
  const auto mark = [total](double fraction) {
    return static_cast<std::uint64_t>(std::ceil(fraction * static_cast<double>(total)));
  };
  const std::uint64_t which = static_cast<std::uint64_t>(tier) << 48 |
                              (choice.tenant ? *choice.tenant + std::uint64_t{1} : 0) << 24 |
                              *choice.size_class;
  if (clean < mark(options_.clean_low_fraction))
    making_room_.insert(which);
  else if (clean >= mark(options_.clean_fraction))
    making_room_.erase(which);
  return making_room_.contains(which);
}

void TieredCache::Impl::copy_ahead() {
  if (host_) copy_sealed_to_host();
  for (std::uint32_t size_class = 0; size_class < catalog_.size_classes(); ++size_class)
    copy_ahead({.size_class = size_class, .tenant = {}});
  clear_the_way(Tier::device);
  if (host_) clear_the_way(Tier::host);
  // Who has reached his quota needs clean slots among his own, however many others are free.
  if (tenants_.size() == 1) return;
  for (const Shelf& shelf : catalog_.shelves())
    copy_ahead({.size_class = shelf.size_class, .tenant = shelf.tenant});
}

void TieredCache::Impl::clear_the_way(Tier tier) {
  std::uint64_t& left = in_the_way_bytes_[static_cast<std::size_t>(tier)];
  if (left > 0) ask_again_for_stuck(tier, left);
  while (left > 0) {
    Block* dirty = candidates_.earlier(candidates_.next(tier, {}, Candidate::dirty),
                                       candidates_.next(tier, {}, Candidate::anchored));
    if (!dirty) {
      left = 0;
      return;
    }
    const std::uint64_t bytes = space_of(*dirty).slot_bytes;
    if (tier == Tier::device && host_ && !dirty->host_declined) {
      if (clock_.monotonic_ns() < demote_not_before_ns_ ||
          demotions_in_flight_ >= max_host_demotions_in_flight)
        return;
      if (!demote(*dirty)) {
        if (!operations_.empty()) return;
        dirty->host_declined = true;
        refresh(*dirty);
        continue;
      }
    } else {
      queue_write(*dirty);
    }
    left -= std::min(left, bytes);
  }
}

// Where nothing else can go, blocks that the tiers below declined once are offered to them again:
// there may be room now. Else they would keep their slots for ever, since nobody uses them.
void TieredCache::Impl::ask_again_for_stuck(Tier tier, std::uint64_t bytes) {
  for (const Candidate kind : {Candidate::dirty, Candidate::anchored, Candidate::queued})
    if (candidates_.next(tier, {}, kind)) return;
  for (std::uint64_t asked = 0; asked < bytes;) {
    Block* const block = candidates_.next(tier, {}, Candidate::stuck);
    if (!block) return;
    asked += space_of(*block).slot_bytes;
    block->host_declined = block->disk_declined = false;
    refresh(*block);
    if (block->candidate(tier) == Candidate::stuck) return;  // there is no tier below
  }
}

void TieredCache::Impl::copy_ahead(const Choice& choice) {
  if (host_) demote_ahead(choice);
  ArenaTier& lowest = host_ ? *host_ : device_;
  if (disk_) write_ahead(lowest, choice);
  if (remote_ && options_.redis_write == WritePolicy::on_evict) share_ahead(lowest, choice);
}

void TieredCache::Impl::copy_sealed_to_host() {
  while (!to_host_.empty() && demotions_in_flight_ < max_host_demotions_in_flight &&
         clock_.monotonic_ns() >= demote_not_before_ns_) {
    Block* block = catalog_.find(to_host_.front());
    to_host_.pop_front();
    // What the host has no place for now is demoted when it leaves the device.
    if (block && block->in_device() && !block->host) demote(*block);
  }
}

void TieredCache::Impl::demote_ahead(const Choice& choice) {
  if (clock_.monotonic_ns() < demote_not_before_ns_) return;
  for (std::size_t turn = 0; turn < max_evictions_a_turn; ++turn) {
    const std::uint64_t clean = free_slots_for(device_, choice) +
                                candidates_.size(Tier::device, choice, Candidate::settled) +
                                demotions_in_flight_;
    if (!short_of_clean(Tier::device, choice, clean, slots_for(device_, choice)) ||
        demotions_in_flight_ >= max_host_demotions_in_flight)
      return;
    Block* block = candidates_.earlier(candidates_.next(Tier::device, choice, Candidate::droppable),
                                       candidates_.next(Tier::device, choice, Candidate::dirty));
    block = candidates_.earlier(block, candidates_.next(Tier::device, choice, Candidate::anchored));
    if (!block) {
      // What is clean hides its ancestors: it must go before they may.
      Block* hiding = candidates_.next(Tier::device, choice, Candidate::settled);
      if (!hiding || !hiding->parent || !hiding->parent->device) return;
      evict(*hiding, Tier::device);
    } else if (block->host_declined) {
      queue_write(*block);  // the disk's alone
    } else if (!demote(*block)) {
      // What is being copied or written may leave the host when that is over.
      if (!operations_.empty()) return;
      block->host_declined = true;
      refresh(*block);
    }
  }
}

bool TieredCache::Impl::demote(Block& block) {
  Slot& from = *block.device;
  begin_use(from);  // making room for it must not evict it
  Slot* to = take_host_slot(block);
  if (!to) {
    end_use(from);
    return false;
  }
  to->state = SlotState::loading;
  attach(block, *to);
  begin_use(*to);
  ++demotions_in_flight_;
  const Ticket ticket = new_ticket({Operation::Kind::demote, &block, &from, to});
  accelerator_.copy_async(ticket, bytes_of(*to).data(), bytes_of(from));
  return true;
}

void TieredCache::Impl::write_ahead(ArenaTier& arena, const Choice& choice) {
  const Tier tier = arena.tier();
  for (std::size_t turn = 0; turn < max_evictions_a_turn; ++turn) {
    Block* dirty = candidates_.earlier(candidates_.next(tier, choice, Candidate::dirty),
                                       candidates_.next(tier, choice, Candidate::anchored));
    if (!dirty) return;
    std::uint64_t clean = free_slots_for(arena, choice) + writes_in_flight_;
    for (const Candidate kind : {Candidate::settled, Candidate::droppable, Candidate::queued})
      clean += candidates_.size(tier, choice, kind);
    if (!short_of_clean(tier, choice, clean, slots_for(arena, choice))) return;
    // In the order of eviction: what is clean and goes first must not hide ancestors that are clean
    // as well, or more would be written than is needed.
    Block* settled = candidates_.next(tier, choice, Candidate::settled);
    const Block* parent = nullptr;
    if (settled) parent = settled->parent;
    const bool hides = parent && (tier == Tier::device ? parent->device : parent->host);
    if (hides && candidates_.earlier(settled, dirty) == settled)
      evict(*settled, tier);
    else
      queue_write(*dirty);
  }
}

void TieredCache::Impl::finish_demotion(const Operation& operation, const Status& status,
                                        std::uint64_t checksum) {
  Slot& from = *operation.slot;
  Slot& to = *operation.other;
  --demotions_in_flight_;
  end_use(to);
  if (status.ok() && checksum == from.checksum && from.block) {
    demotion_failures_ = 0;
    ++counters(Tier::device).demotions;
    from.verified = true;
    to.checksum = checksum;
    to.verified = true;
    become_copy(to);
    resolve_waiters(to, true);
    end_use(from);
    return;
  }
  // The block first loses the copy that did not come about, then, maybe, the one that is wrong.
  if (!status.ok()) {
    ++counters(Tier::device).failures;
    const std::int64_t wait_ns = std::min(
        first_retry_ns << std::min<std::uint32_t>(demotion_failures_++, 16), longest_retry_ns);
    demote_not_before_ns_ = clock_.monotonic_ns() + wait_ns;
  }
  resolve_waiters(to, false);
  detach(to);
  free_slot(to);
  if (status.ok() && from.block) quarantine(from);
  end_use(from);
}

}  // namespace terrace::storage
