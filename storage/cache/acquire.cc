// Acquisitions: which run is worth having, holding it, and telling when it is there.
#include <algorithm>

#include "storage/cache/impl.h"

namespace terrace::storage {

namespace {

// Where a block is, or comes to be, as high as `into` wants it; null: nowhere.
Slot* place_of(const Block& block, Tier into) {
  return into == Tier::host && !block.device ? block.host : block.device;
}

}  // namespace

// The length of the run that saves the most time: what computing its blocks takes less what loading
// them takes. Without measurements everything is loaded.
std::size_t TieredCache::Impl::worthwhile_run(const SpaceEntry& space, std::span<Block* const> run,
                                              double prefill_tokens_per_second,
                                              std::uint32_t partial_tokens) const {
  if (prefill_tokens_per_second <= 0) return run.size();
  const double token_ns = 1e9 / prefill_tokens_per_second;
  const std::uint32_t block_tokens = space.descriptor.block_tokens;
  const std::int64_t now_ns = clock_.monotonic_ns();
  const double host_ns = host_rate_.estimate_ns(now_ns, space.descriptor.block_bytes);
  const double disk_ns = disk_rate_.estimate_ns(now_ns, space.descriptor.block_bytes);
  const double redis_ns = redis_rate_.estimate_ns(now_ns, space.descriptor.block_bytes);
  double gain_ns = 0, best_ns = 0;
  std::size_t best = 0;
  for (std::size_t i = 0; i < run.size(); ++i) {
    const bool partial = partial_tokens > 0 && i + 1 == run.size();
    gain_ns += token_ns * (partial ? partial_tokens : block_tokens);
    const Tier tier = run[i]->highest_tier();
    if (tier == Tier::host) gain_ns -= host_ns;
    if (tier == Tier::disk) gain_ns -= disk_ns;
    if (tier == Tier::redis) gain_ns -= redis_ns;
    if (gain_ns > best_ns) {
      best_ns = gain_ns;
      best = i + 1;
    }
  }
  return best;
}

bool TieredCache::Impl::needs_check(const Slot& slot, SessionId session) const {
  switch (options_.device_verify) {
    case DeviceVerify::never:
      return false;
    case DeviceVerify::first_use:
      return !slot.verified && slot.session != session;
    case DeviceVerify::always:
      return slot.session != session;
  }
  return true;
}

void TieredCache::Impl::acquire(SessionId session, LeaseId lease_id, SpaceId space_id,
                                std::span<const BlockKey> keys, const AcquireOptions& options,
                                AcquireCallback done) {
  const auto owner = sessions_.find(session);
  const SpaceEntry* space = usable_space(space_id);
  if (owner == sessions_.end() || owner->second.abandoned || !space ||
      (options.into == Tier::host && !host_)) {
    done({});
    return;
  }
  std::vector<Block*> run;
  catalog_.index().find(keys, run);
  // Each hold writes to the slot, which lies elsewhere.
  for (const Block* block : run)
    if (block && block->device) __builtin_prefetch(block->device, 1);
  const bool remote = remote_usable();
  const std::int64_t oldest = oldest_created(*space);
  std::size_t present = 0;
  for (const Block* above = nullptr; present < run.size(); above = run[present++]) {
    const Block* const block = run[present];
    if (!block || block->space != space_id || !obtainable(*block, remote) ||
        block->created < oldest)
      break;
    // What comes from Redis must not come below what is not here, nor asked for with it.
    if (!block->kept() && block->parent && block->parent != above && !block->parent->kept()) break;
  }
  run.resize(present);

  const std::uint64_t id = next_acquisition_++;
  Acquisition& acquisition = acquisitions_[id];
  acquisition.session = session;
  acquisition.lease = lease_id;
  acquisition.space = space_id;
  acquisition.prefill_tokens_per_second = options.prefill_tokens_per_second;
  acquisition.remote_limit_ns = options.remote_deadline_ns != 0
                                    ? options.remote_deadline_ns
                                    : clock_.monotonic_ns() + default_remote_load_ns;
  acquisition.into = options.into;
  acquisition.done = std::move(done);
  acquisition.times = options.times;
  acquisition.started_ns = clock_.monotonic_ns();
  lease_of(session, lease_id).acquisitions.push_back(id);
  const bool all_there = run.size() == keys.size();
  const bool extended = extend(id, run, all_there ? options.partial_tokens : 0);
  if (extended && acquisition.slots.size() == run.size() && options.wait_ms > 0 && !draining_) {
    acquisition.wait_limit_ns = clock_.monotonic_ns() + options.wait_ms * std::int64_t{1'000'000};
    await_others(id, acquisition, keys.subspan(run.size()));
  }
  if (acquisition.finished()) finished_.push_back(id);
  copy_ahead();
  deliver_finished();
}

bool TieredCache::Impl::extend(std::uint64_t id, std::span<Block* const> all,
                               std::uint32_t partial_tokens) {
  Acquisition& acquisition = acquisitions_.at(id);
  const SpaceEntry& space = *catalog_.space(acquisition.space);
  const std::size_t length =
      worthwhile_run(space, all, acquisition.prefill_tokens_per_second, partial_tokens);
  declined_loads_ += all.size() - length;
  for (const Block* block : all.subspan(length)) miss_notes_.note(block->key, MissReason::slower);
  const std::span<Block* const> run = all.first(length);
  std::vector<Slot*> slots(length, nullptr);
  std::vector<Tier> from;
  from.reserve(length);

  const std::uint64_t recency = new_recency();
  Lease& lease = lease_of(acquisition.session, acquisition.lease);
  for (Block* block : run) {
    from.push_back(block->highest_tier());
    touch(*block, recency, lease, block == run.back());
  }
  // First hold what is there already, so that making room for the rest cannot evict it.
  for (std::size_t i = 0; i < length; ++i)
    if ((slots[i] = place_of(*run[i], acquisition.into))) hold(*slots[i]);
  std::vector<Slot*> to_load;
  std::size_t had = 0;
  for (; had < length; ++had) {
    Slot*& slot = slots[had];
    if (slot) continue;
    if ((slot = place_of(*run[had], acquisition.into))) {  // the same key a second time
      hold(*slot);
      continue;
    }
    slot =
        acquisition.into == Tier::device ? take_device_slot(space) : take_host_slot_for_load(space);
    if (!slot) break;
    slot->state = SlotState::loading;
    attach(*run[had], *slot);
    hold(*slot);
    to_load.push_back(slot);
  }
  for (std::size_t i = had; i < length; ++i) {
    miss_notes_.note(run[i]->key, MissReason::no_room);
    if (slots[i]) unhold(*slots[i]);
  }

  const std::size_t before = acquisition.slots.size();
  acquisition.slots.reserve(before + had);
  acquisition.from.reserve(before + had);
  acquisition.parts.reserve(before + had);
  std::vector<Slot*> to_check;
  for (std::size_t i = 0; i < had; ++i) {
    Slot& slot = *slots[i];
    const bool check = acquisition.into == Tier::device && slot.state == SlotState::copy &&
                       needs_check(slot, acquisition.session);
    const bool wait = slot.state == SlotState::loading || check;
    if (wait) {
      if (is_fetching(*run[i])) limit_remote(id, acquisition);
      ++acquisition.waiting;
      slot.waiters.push_back({id, static_cast<std::uint32_t>(acquisition.slots.size())});
      if (check && !slot.verifying) to_check.push_back(&slot);
    }
    acquisition.slots.push_back(&slot);
    acquisition.from.push_back(from[i]);
    acquisition.parts.push_back(wait ? Acquisition::Part::waiting : Acquisition::Part::ready);
  }
  for (Slot* slot : to_check)
    if (!slot->verifying) start_check(*slot);
  for (Slot* slot : to_load) start_load(*slot);
  return had == all.size();
}

void TieredCache::Impl::resolve_waiters(Slot& slot, bool ready) {
  for (const SlotWaiter& waiter : std::exchange(slot.waiters, {})) {
    const auto found = acquisitions_.find(waiter.acquisition);
    if (found == acquisitions_.end()) continue;
    Acquisition& acquisition = found->second;
    // The run may have become shorter because of another block.
    if (waiter.index >= acquisition.slots.size()) continue;
    if (!ready) {
      truncate(waiter.acquisition, waiter.index);
    } else {
      acquisition.parts[waiter.index] = Acquisition::Part::ready;
      --acquisition.waiting;
      if (acquisition.finished()) finished_.push_back(waiter.acquisition);
    }
  }
}

void TieredCache::Impl::note_wait(const Slot& slot, std::int64_t AcquireTimes::*part) {
  for (const SlotWaiter& waiter : slot.waiters) {
    const auto found = acquisitions_.find(waiter.acquisition);
    if (found == acquisitions_.end() || !found->second.times) continue;
    found->second.times.get()->*part = clock_.monotonic_ns() - found->second.started_ns;
  }
}

void TieredCache::Impl::truncate(std::uint64_t id, std::size_t length) {
  Acquisition& acquisition = acquisitions_.at(id);
  for (std::size_t i = length; i < acquisition.slots.size(); ++i) {
    if (acquisition.parts[i] == Acquisition::Part::waiting) --acquisition.waiting;
    unhold(*acquisition.slots[i]);
  }
  acquisition.slots.resize(length);
  acquisition.from.resize(length);
  acquisition.parts.resize(length);
  stop_awaiting(id, acquisition);
  if (acquisition.finished()) finished_.push_back(id);
}

void TieredCache::Impl::deliver_finished() {
  // A callback may call into the cache and finish more: the loop outside takes those, too.
  if (delivering_) return;
  delivering_ = true;
  for (std::size_t i = 0; i < finished_.size(); ++i) {
    auto node = acquisitions_.extract(finished_[i]);
    if (node.empty()) continue;  // its lease was released
    Acquisition& acquisition = node.mapped();
    Lease& lease = lease_of(acquisition.session, acquisition.lease);
    std::erase(lease.acquisitions, node.key());
    // A block may have been found wrong after it was there, while the rest of its run was on its
    // way.
    const auto wrong = std::ranges::find_if(
        acquisition.slots, [](const Slot* slot) { return slot->state != SlotState::copy; });
    for (auto at = wrong; at != acquisition.slots.end(); ++at) unhold(**at);
    acquisition.slots.erase(wrong, acquisition.slots.end());
    share_used(acquisition);
    std::vector<AcquiredBlock> blocks;
    blocks.reserve(acquisition.slots.size());
    lease.slots.reserve(lease.slots.size() + acquisition.slots.size());
    for (std::size_t at = 0; at < acquisition.slots.size(); ++at) {
      Slot& slot = *acquisition.slots[at];
      lease.slots.push_back(&slot);
      const Tier from = acquisition.from[at];
      blocks.push_back({slot.offset, from});
      ++counters(from).hits;
      for (const Tier tier : tiers_here_)
        if (tier < from && tier >= acquisition.into) ++counters(tier).misses;
      // What Redis had was used once, as far as this host knows.
      if (from == Tier::redis && !slot.block->disk_declined && !draining_)
        admit(*slot.block, false);
    }
    acquisition.done(std::move(blocks));
  }
  finished_.clear();
  delivering_ = false;
  pump_shares();
}

}  // namespace terrace::storage
