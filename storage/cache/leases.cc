// Sessions, their leases, and the slots that leases reserve.
#include <algorithm>

#include "storage/cache/impl.h"

namespace terrace::storage {

SessionId TieredCache::Impl::open_session() {
  const SessionId id = next_session_++;
  sessions_.emplace(id, Session{});
  return id;
}

void TieredCache::Impl::abandon_session(SessionId session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  found->second.abandoned = true;
  // Nobody waits for these any more, and nothing will be sealed. What is held stays held: a process
  // may still read and write.
  for (auto& [id, lease] : found->second.leases) {
    for (Slot* slot : lease.slots) forget_pending(*slot);
    // The process was never told of these.
    for (const std::uint64_t acquisition : lease.acquisitions) drop_acquisition(acquisition);
    lease.acquisitions.clear();
  }
  tell_waiting();
}

void TieredCache::Impl::end_session(SessionId session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  std::vector<LeaseId> leases;
  for (const auto& [id, lease] : found->second.leases) leases.push_back(id);
  for (const LeaseId lease : leases) drop_lease(session, lease);
  sessions_.erase(session);
  std::vector<Slot*> quarantined(quarantined_.begin(), quarantined_.end());
  // In an order that does not depend on addresses: a simulation must run the same way again.
  std::ranges::sort(quarantined, {},
                    [](const Slot* slot) { return std::pair(slot->tier, slot->offset); });
  for (Slot* slot : quarantined) free_if_out_of_reach(*slot);
  copy_ahead();
  tell_waiting();
}

TieredCache::Impl::Lease& TieredCache::Impl::lease_of(SessionId session, LeaseId lease) {
  return sessions_.at(session).leases[lease];
}

void TieredCache::Impl::drop_acquisition(std::uint64_t id) {
  auto node = acquisitions_.extract(id);
  if (node.empty()) return;
  stop_awaiting(id, node.mapped());
  for (Slot* slot : node.mapped().slots) unhold(*slot);
}

void TieredCache::Impl::release(SessionId session, LeaseId lease) {
  drop_lease(session, lease);
  copy_ahead();
  tell_waiting();
}

void TieredCache::Impl::drop_lease(SessionId session, LeaseId lease_id) {
  const auto owner = sessions_.find(session);
  if (owner == sessions_.end()) return;
  auto node = owner->second.leases.extract(lease_id);
  if (node.empty()) return;
  Lease& lease = node.mapped();
  for (const std::uint64_t id : lease.acquisitions) drop_acquisition(id);
  for (const Slot* slot : lease.slots) __builtin_prefetch(slot, 1);
  for (Slot* slot : lease.slots) {
    if (slot->state != SlotState::reserved) {
      unhold(*slot);
      continue;
    }
    forget_pending(*slot);
    --reserved_slots_;
    free_slot(*slot);
  }
}

std::vector<SlotOffset> TieredCache::Impl::reserve(SessionId session, LeaseId lease_id,
                                                   SpaceId space_id, std::span<const BlockKey> keys,
                                                   std::size_t unnamed) {
  std::vector<SlotOffset> offsets;
  const auto owner = sessions_.find(session);
  const SpaceEntry* space = usable_space(space_id);
  if (owner == sessions_.end() || owner->second.abandoned || !space || draining_) return offsets;
  Lease& lease = lease_of(session, lease_id);
  std::vector<BlockKey> unknown;
  const std::int64_t oldest = oldest_created(*space);
  for (const BlockKey& key : keys) {
    const Block* block = catalog_.find(key);
    for (const Tier tier : tiers_here_)
      if (!block || !block->has(tier)) ++counters(tier).misses;
    if (remote_ && !(block && block->in_redis())) ++counters(Tier::redis).misses;
    if (!block && reuse_) unknown.push_back(key);
    MissReason reason = MissReason::behind;
    if (block && block->created < oldest)
      reason = MissReason::expired;
    else if (!block || !block->present())
      reason = flights_.others_compute({space_id, key}, session) ? MissReason::pending
                                                                 : MissReason::unseen;
    ++misses_by_reason_[static_cast<std::size_t>(miss_notes_.take(key, reason))];
  }
  if (reuse_) reuse_->miss(unknown, request_of(lease));
  for (std::size_t i = 0; i < keys.size() + unnamed; ++i) {
    Slot* slot = take_device_slot(*space);
    if (!slot) break;
    slot->state = SlotState::reserved;
    slot->holders = 1;
    slot->session = session;
    slot->lease = lease_id;
    if (i < keys.size()) {
      slot->pending = keys[i];
      flights_.begin({space_id, keys[i]}, session);
    }
    ++reserved_slots_;
    lease.slots.push_back(slot);
    offsets.push_back(slot->offset);
  }
  copy_ahead();
  return offsets;
}

void TieredCache::Impl::forget_pending(Slot& slot) {
  if (!slot.pending) return;
  flights_.end({slot.space, *slot.pending}, slot.session);
  slot.pending.reset();
}

}  // namespace terrace::storage
