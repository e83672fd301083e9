// Loading what only the tier that other hosts share has: straight into the slot that it is wanted
// in where the CPU can access that, else into a host slot, from where it is copied.
#include <algorithm>

#include "storage/cache/impl.h"

namespace terrace::storage {

bool TieredCache::Impl::is_fetching(const Block& block) const {
  const auto loading = [](const Slot* slot) { return slot && slot->state == SlotState::loading; };
  return (loading(block.device) || loading(block.host)) && !block.kept() && block.in_redis();
}

void TieredCache::Impl::start_fetch(Slot& slot) {
  Block& block = *slot.block;
  const std::int64_t now_ns = clock_.monotonic_ns();
  std::int64_t deadline_ns = 0;
  for (const SlotWaiter& waiter : slot.waiters) {
    const auto found = acquisitions_.find(waiter.acquisition);
    if (found == acquisitions_.end()) continue;
    limit_remote(waiter.acquisition, found->second);
    deadline_ns = std::max(deadline_ns, found->second.remote_limit_ns);
  }
  if (deadline_ns == 0) deadline_ns = now_ns + default_remote_load_ns;
  Slot* to = &slot;
  begin_use(slot);
  if (slot.tier == Tier::device && !device_.memory().host_accessible()) {
    to = host_ && !block.host ? take_host_slot(block) : nullptr;
    if (!to) {
      end_use(slot);
      return fail_load(slot);
    }
    to->state = SlotState::loading;
    attach(block, *to);
    begin_use(*to);
  }
  redis_rate_.started(now_ns);
  ++fetches_in_flight_;
  RemoteRead request;
  request.ticket = new_ticket({Operation::Kind::fetch, &block, to, to == &slot ? nullptr : &slot});
  request.space = space_of(block).digest;
  request.key = block.key;
  request.parent = block.parent ? block.parent->key : request.space;
  request.tokens.assign(block.tokens().begin(), block.tokens().end());
  request.destination = bytes_of(*to);
  request.deadline_ns = deadline_ns;
  remote_->read(std::move(request));
}

void TieredCache::Impl::finish_fetch(const Operation& operation,
                                     const RemoteCompletion& completion) {
  Slot& to = *operation.slot;
  Slot* const device = operation.other;  // which it goes on to
  // None if the block was sealed meanwhile: nobody needs these bytes any more.
  Block* const block = to.block;
  StatusCode code = completion.status.code();
  if (code == StatusCode::ok && block && !block->kept() && completion.created_unix_ms != 0) {
    block->created =
        age_unit_of(std::min(completion.created_unix_ms, clock_.unix_ms())) & max_age_unit;
    if (expired(*block)) {
      // Another host allows it to become older.
      code = StatusCode::not_found;
      remote_->erase(space_of(*block).digest, std::span(&block->key, 1));
    }
  }
  const bool good = code == StatusCode::ok;
  redis_rate_.finished(clock_.monotonic_ns(), good ? bytes_of(to).size() : 0);
  --fetches_in_flight_;
  note_wait(device ? *device : to, &AcquireTimes::redis_ns);
  if (good) {
    to.checksum = completion.payload_checksum;
    to.verified = true;
    ++counters(Tier::redis).promotions;
  } else {
    ++counters(Tier::redis).misses;
    if (code == StatusCode::corruption) ++counters(Tier::redis).corruptions;
    // That it is gone is no failure: it is how such a tier works.
    if (code != StatusCode::corruption && code != StatusCode::not_found)
      ++counters(Tier::redis).failures;
    if (block)
      miss_notes_.note(block->key, code == StatusCode::corruption  ? MissReason::corrupt
                                   : code == StatusCode::not_found ? MissReason::evicted
                                                                   : MissReason::failed);
    // It has a slot here, so this does not remove it.
    if (block && block->in_redis()) set_redis(*block, RedisCopy::none);
  }
  end_use(to);
  const auto load_otherwise = [this](Slot& slot) {
    if (slot.block->kept())
      start_load(slot);
    else
      fail_load(slot);
  };
  if (!device) {
    if (!block) return;
    if (!good) return load_otherwise(to);
    become_copy(to);
    resolve_waiters(to, true);
    return;
  }
  resolve_waiters(to, good);
  if (good) {
    become_copy(to);
  } else {
    detach(to);
    free_slot(to);
  }
  const bool wanted = device->block != nullptr;
  end_use(*device);
  if (wanted) load_otherwise(*device);
}

void TieredCache::Impl::give_up_fetch(Slot& slot) {
  resolve_waiters(slot, false);
  remote_only_.add(slot.block->key, clock_.monotonic_ns());  // so it stays known
  detach(slot);
  slot.state = SlotState::dropped;  // still written to
  free_if_out_of_reach(slot);
}

void TieredCache::Impl::limit_remote(std::uint64_t id, const Acquisition& acquisition) {
  remote_limits_.emplace(acquisition.remote_limit_ns, id);
}

void TieredCache::Impl::cut_late_loads() {
  const std::int64_t now_ns = clock_.monotonic_ns();
  while (!remote_limits_.empty() && remote_limits_.begin()->first <= now_ns) {
    const std::uint64_t id = remote_limits_.begin()->second;
    remote_limits_.erase(remote_limits_.begin());
    const auto found = acquisitions_.find(id);
    if (found == acquisitions_.end()) continue;
    const Acquisition& acquisition = found->second;
    for (std::size_t i = 0; i < acquisition.slots.size(); ++i) {
      const Slot& slot = *acquisition.slots[i];
      if (acquisition.parts[i] != Acquisition::Part::waiting || slot.state != SlotState::loading ||
          slot.block->kept())
        continue;
      ++cut_loads_;
      miss_notes_.note(slot.block->key, MissReason::late);
      truncate(id, i);
      break;
    }
  }
}

}  // namespace terrace::storage
