// Copying down ahead of need, so that whoever needs a slot finds some that can go without I/O: from
// device to host, and to disk what was not written before.
#include <algorithm>
#include <cmath>

#include "storage/cache/impl.h"

namespace terrace::storage {

bool TieredCache::Impl::short_of_clean(Tier tier, std::uint32_t size_class, std::uint64_t clean,
                                       std::uint64_t total) {
  auto& making = making_room_[static_cast<std::size_t>(tier)];
  if (making.size() <= size_class) making.resize(size_class + 1, false);
  const auto mark = [total](double fraction) {
    return static_cast<std::uint64_t>(std::ceil(fraction * static_cast<double>(total)));
  };
  const std::uint64_t low = mark(options_.clean_low_fraction), high = mark(options_.clean_fraction);
  if (clean < low)
    making[size_class] = true;
  else if (clean >= high)
    making[size_class] = false;
  return making[size_class];
}

void TieredCache::Impl::copy_ahead() {
  if (host_) copy_sealed_to_host();
  for (std::uint32_t size_class = 0; size_class < catalog_.size_classes(); ++size_class) {
    if (host_) demote_ahead(size_class);
    if (disk_) write_ahead(host_ ? *host_ : device_, size_class);
  }
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

void TieredCache::Impl::demote_ahead(std::uint32_t size_class) {
  if (clock_.monotonic_ns() < demote_not_before_ns_) return;
  const std::uint64_t slot_bytes = catalog_.slot_bytes(size_class);
  const SlabArena& arena = device_.arena();
  for (std::size_t turn = 0; turn < max_evictions_a_turn; ++turn) {
    const std::uint64_t clean = arena.free_slots(slot_bytes) +
                                candidates_.size(Tier::device, size_class, Candidate::settled) +
                                demotions_in_flight_;
    if (!short_of_clean(Tier::device, size_class, clean, arena.total_slots(slot_bytes)) ||
        demotions_in_flight_ >= max_host_demotions_in_flight)
      return;
    Block* block =
        candidates_.earlier(candidates_.next(Tier::device, size_class, Candidate::droppable),
                            candidates_.next(Tier::device, size_class, Candidate::dirty));
    block =
        candidates_.earlier(block, candidates_.next(Tier::device, size_class, Candidate::anchored));
    if (!block) {
      // What is clean hides its ancestors: it must go before they may.
      Block* hiding = candidates_.next(Tier::device, size_class, Candidate::settled);
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

void TieredCache::Impl::write_ahead(ArenaTier& arena, std::uint32_t size_class) {
  const Tier tier = &arena == &device_ ? Tier::device : Tier::host;
  const std::uint64_t slot_bytes = catalog_.slot_bytes(size_class);
  for (std::size_t turn = 0; turn < max_evictions_a_turn; ++turn) {
    Block* dirty = candidates_.earlier(candidates_.next(tier, size_class, Candidate::dirty),
                                       candidates_.next(tier, size_class, Candidate::anchored));
    if (!dirty) return;
    std::uint64_t clean = arena.arena().free_slots(slot_bytes) + writes_in_flight_;
    for (const Candidate kind : {Candidate::settled, Candidate::droppable, Candidate::queued})
      clean += candidates_.size(tier, size_class, kind);
    if (!short_of_clean(tier, size_class, clean, arena.arena().total_slots(slot_bytes))) return;
    // In the order of eviction: what is clean and goes first must not hide ancestors that are clean
    // as well, or more would be written than is needed.
    Block* settled = candidates_.next(tier, size_class, Candidate::settled);
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
  detach(to);
  free_slot(to);
  if (status.ok() && from.block) quarantine(from);
  end_use(from);
}

}  // namespace terrace::storage
