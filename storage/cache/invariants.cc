#include <map>

#include "storage/cache/impl.h"

namespace terrace::storage {

namespace {

Status broken(const std::string& what) { return {StatusCode::internal, "invariant: " + what}; }

}  // namespace

Status TieredCache::Impl::check_invariants() const {
  // Holds: each one of a lease or of an acquisition, and nothing else.
  std::unordered_map<const Slot*, std::uint32_t> holds;
  std::uint64_t reserved = 0, named = 0, awaiting = 0;
  for (const auto& [session_id, session] : sessions_)
    for (const auto& [lease_id, lease] : session.leases)
      for (const Slot* slot : lease.slots) {
        ++holds[slot];
        named += slot->pending.has_value();
        if (slot->state != SlotState::reserved) continue;
        ++reserved;
        if (slot->session != session_id || slot->lease != lease_id)
          return broken("a reserved slot belongs to another lease");
      }
  for (const auto& [id, acquisition] : acquisitions_) {
    for (const Slot* slot : acquisition.slots) ++holds[slot];
    if (!sessions_.contains(acquisition.session)) return broken("an acquisition without session");
    if (acquisition.finished()) return broken("a finished acquisition has not called back");
    if (!acquisition.awaits) continue;
    ++awaiting;
    const Flight flight = {acquisition.space, acquisition.awaited[acquisition.next_awaited]};
    if (!flights_.waits(id, flight)) return broken("an acquisition waits for nothing");
    if (!flights_.others_compute(flight, acquisition.session))
      return broken("an acquisition waits for what nobody computes");
  }
  if (reserved != reserved_slots_) return broken("reserved slots are miscounted");
  if (named != flights_.reservations()) return broken("pending keys are miscounted");
  if (awaiting != flights_.waiting()) return broken("waiting acquisitions are miscounted");

  std::uint64_t slots_of_blocks = 0;
  std::map<std::pair<TenantId, Tier>, std::uint64_t> used_by;
  const auto check_arena = [&](const ArenaTier& arena, Tier tier) -> Status {
    std::uint64_t bytes = 0;
    for (const auto& [offset, at] : arena.slots()) {
      const Slot& slot = *at;
      const SpaceEntry& space = *catalog_.space(slot.space);
      bytes += space.slot_bytes;
      used_by[{space.tenant, tier}] += space.slot_bytes;
      if (slot.offset != offset || slot.tier != tier) return broken("a slot has another place");
      if (offset + space.slot_bytes > arena.memory().size())
        return broken("a slot lies past its arena");
      const auto held = holds.find(&slot);
      if (slot.holders != (held == holds.end() ? 0 : held->second))
        return broken("holds of a slot are miscounted");
      if (slot.block) ++slots_of_blocks;
      switch (slot.state) {
        case SlotState::reserved:
          if (slot.block || slot.holders != 1) return broken("a reserved slot holds a block");
          break;
        case SlotState::loading:
          if (!slot.block || slot.busy == 0) return broken("a loading slot loads nothing");
          break;
        case SlotState::copy:
          if (!slot.block) return broken("a copy without block");
          break;
        case SlotState::moving:
          if (slot.block || slot.busy != 1 || slot.holders > 0)
            return broken("a slot that a block moves into is in use");
          break;
        case SlotState::dropped:
          if (slot.block || (slot.holders == 0 && slot.busy == 0))
            return broken("a dropped slot is kept for nobody");
          break;
        case SlotState::quarantined:
          if (slot.block || !quarantined_.contains(const_cast<Slot*>(&slot)))
            return broken("a quarantined slot is unknown or in use");
          break;
      }
    }
    if (bytes != arena.arena().used_bytes()) return broken("bytes of an arena are miscounted");
    if (bytes > arena.arena().capacity_bytes()) return broken("an arena is over its capacity");
    return {};
  };
  if (Status status = check_arena(device_, Tier::device); !status.ok()) return status;
  if (host_)
    if (Status status = check_arena(*host_, Tier::host); !status.ok()) return status;

  std::array<std::uint64_t, local_tiers> copies{};
  std::uint64_t holes = 0, disk_bytes = 0, slots_seen = 0, in_redis = 0, being_shared = 0;
  Status status;
  catalog_.index().visit_from(BlockKey{}, [&](const Block& block) {
    const auto fail = [&](const std::string& what) {
      status = broken(what + " (block " + block.key.hex() + ")");
      return false;
    };
    for (const Slot* slot : {block.device.get(), block.host.get()}) {
      if (!slot) continue;
      ++slots_seen;
      const Tier tier = slot == block.device ? Tier::device : Tier::host;
      if (slot->block != &block || slot->tier != tier ||
          block.has(tier) != (slot->state == SlotState::copy))
        return fail("a block and its slot disagree");
    }
    if ((block.in_device() && !block.device) || (block.in_host() && !block.host))
      return fail("a copy without a slot");
    for (std::size_t tier = 0; tier < local_tiers; ++tier)
      copies[tier] += block.has(static_cast<Tier>(tier));
    disk_bytes += block.disk_bytes();
    used_by[{space_of(block).tenant, Tier::disk}] += block.disk_bytes();
    holes += block.hole();
    if (!block.present() && !block.occupies_anything() && block.children.empty() &&
        block.disk_reads == 0)
      return fail("a hole that nothing needs");
    in_redis += block.in_redis();
    being_shared += block.redis == RedisCopy::writing;
    if (block.in_redis() && !block.occupies_local() && !remote_only_.contains(block.key))
      return fail("only Redis has it, and it is never forgotten");
    if (block.remote_tail && block.kept()) return fail("it is kept, and not only Redis has it");
    std::array<std::uint32_t, local_tiers> children{};
    for (const Block* child : block.children) {
      if (child->parent != &block || child->depth != block.depth + 1)
        return fail("a child has another parent");
      children[0] += child->device != nullptr;
      children[1] += child->host != nullptr;
      children[2] += child->disk != DiskCopy::none;
      if (block.remote_tail && !child->remote_tail)
        return fail("not only Redis has what is below it");
    }
    if (block.pin != pins_.floor(block.key)) return fail("a pin is out of date");
    if (!candidates_.up_to_date(block)) return fail("what may be evicted is out of date");
    for (const Tier tier : {Tier::device, Tier::host, Tier::disk})
      if (children[static_cast<std::size_t>(tier)] != block.children_in(tier))
        return fail("children are miscounted");
    return true;
  });
  if (!status.ok()) return status;
  for (std::size_t tier = 0; tier < local_tiers; ++tier)
    if (copies[tier] != counters_[tier].blocks)
      return broken("copies are miscounted: " + std::to_string(copies[tier]) + " of " +
                    to_string(static_cast<Tier>(tier)));
  if (in_redis != counters_[static_cast<std::size_t>(Tier::redis)].blocks)
    return broken("blocks in Redis are miscounted");
  if (being_shared != remote_writes_in_flight_) return broken("writes to Redis are miscounted");
  if (shares_.size() > max_queued_shares + 1) return broken("too much waits to be given to Redis");
  if (share_ && share_->asked != 0 && !lookups_.contains(share_->asked))
    return broken("a share waits for an answer that will not come");
  for (const auto& [ticket, lookup] : lookups_)
    if (lookup.waiting.empty() != lookup.of_share) return broken("a question that nobody asked");
  if (holes != catalog_.holes()) return broken("holes are miscounted");
  for (TenantId tenant = 0; tenant < tenants_.size(); ++tenant)
    for (const Tier tier : tiers_here_)
      if (used_by[{tenant, tier}] != tenants_.used(tenant, tier))
        return broken("bytes of tenant " + tenants_.name(tenant) + " are miscounted");
  if (disk_bytes != disk_bytes_) return broken("bytes on disk are miscounted");
  if (slots_seen != slots_of_blocks) return broken("a slot's block does not know it");
  return {};
}

}  // namespace terrace::storage
