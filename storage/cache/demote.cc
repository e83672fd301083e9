// Demotion from device to host ahead of need, so that whoever needs a slot finds some that can go
// without I/O.
#include <algorithm>
#include <cmath>

#include "storage/cache/impl.h"

namespace terrace::storage {

void TieredCache::Impl::demote_ahead() {
  if (!host_ || clock_.monotonic_ns() < demote_not_before_ns_) return;
  for (std::uint32_t size_class = 0; size_class < catalog_.size_classes(); ++size_class) {
    const std::uint64_t slot_bytes = catalog_.slot_bytes(size_class);
    const SlabArena& arena = device_.arena();
    const auto wanted = static_cast<std::uint64_t>(
        std::ceil(options_.clean_fraction * static_cast<double>(arena.total_slots(slot_bytes))));
    for (std::size_t turn = 0; turn < max_evictions_a_turn; ++turn) {
      const std::uint64_t clean = arena.free_slots(slot_bytes) +
                                  candidates_.size(Tier::device, size_class, Candidate::settled) +
                                  demotions_in_flight_;
      if (clean >= wanted || demotions_in_flight_ >= max_host_demotions_in_flight) break;
      Block* block =
          candidates_.earlier(candidates_.next(Tier::device, size_class, Candidate::droppable),
                              candidates_.next(Tier::device, size_class, Candidate::dirty));
      block = candidates_.earlier(block,
                                  candidates_.next(Tier::device, size_class, Candidate::anchored));
      if (!block) {
        // What is clean hides its ancestors: it must go before they may.
        Block* hiding = candidates_.next(Tier::device, size_class, Candidate::settled);
        if (!hiding || !hiding->parent || !hiding->parent->device) break;
        evict(*hiding, Tier::device);
        continue;
      }
      Slot& from = *block->device;
      Slot* to = take_host_slot(*block);
      if (!to) {
        block->host_declined = true;
        refresh(*block);
        continue;
      }
      to->state = SlotState::loading;
      attach(*block, *to);
      begin_use(from);
      begin_use(*to);
      ++demotions_in_flight_;
      const Ticket ticket = new_ticket({Operation::Kind::demote, block, &from, to});
      accelerator_.copy_async(ticket, bytes_of(*to).data(), bytes_of(from));
    }
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
