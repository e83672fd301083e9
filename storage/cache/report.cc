#include <algorithm>

#include "storage/cache/impl.h"

namespace terrace::storage {

CacheStats TieredCache::Impl::stats() const {
  CacheStats stats;
  stats.tiers = counters_;
  const auto arena = [&](Tier tier, const ArenaTier& from) {
    TierStats& one = stats.tiers[static_cast<std::size_t>(tier)];
    one.capacity_bytes = from.arena().capacity_bytes();
    one.used_bytes = from.arena().used_bytes();
  };
  arena(Tier::device, device_);
  if (host_) arena(Tier::host, *host_);
  if (disk_) {
    const DiskUsage usage = disk_->usage();
    TierStats& disk = stats.tiers[static_cast<std::size_t>(Tier::disk)];
    disk.capacity_bytes = usage.capacity_bytes;
    disk.used_bytes = usage.used_bytes;
  }
  if (remote_) {
    RemoteStats& remote = stats.remote.emplace();
    remote.usage = remote_->usage();
    remote.lookups = remote_lookups_;
    remote.shared_lookups = shared_lookups_;
    remote.late_lookups = late_lookups_;
    remote.lookups_in_flight = lookups_.size();
    remote.reads_in_flight = fetches_in_flight_;
    remote.writes_in_flight = remote_writes_in_flight_;
    remote.cut_loads = cut_loads_;
    remote.queued_prefixes = shares_.size() + share_.has_value();
    remote.dropped_prefixes = dropped_shares_;
    remote.already_there = already_shared_;
  }
  // A put or a get under way has one of its own, which is nobody's session; its lease holds slots
  // like any other.
  stats.sessions = sessions_.size() - transfers_.size();
  stats.quarantined_slots = quarantined_.size();
  for (const auto& [id, session] : sessions_) {
    stats.leases += session.leases.size();
    if (!session.abandoned) continue;
    for (const auto& [lease_id, lease] : session.leases)
      for (const Slot* slot : lease.slots)
        stats.quarantined_slots += slot->state == SlotState::reserved;
  }
  stats.reserved_slots = reserved_slots_;
  stats.pending_blocks = flights_.pending_keys();
  stats.spaces = catalog_.spaces().size();
  stats.holes = catalog_.holes();
  const CatalogMemory memory = catalog_.memory();
  stats.known_blocks = memory.blocks;
  stats.catalog_bytes = memory.block_bytes;
  stats.catalog_token_bytes = memory.token_bytes;
  stats.misses_by_reason = misses_by_reason_;
  stats.declined_loads = declined_loads_;
  stats.waiting_acquires = flights_.waiting();
  stats.awaited_blocks = awaited_blocks_;
  stats.expired_waits = expired_waits_;
  stats.declined_writes = declined_writes_;
  for (TenantId id = 0; tenants_.size() > 1 && id < tenants_.size(); ++id) {
    TenantStats& tenant = stats.tenants.emplace_back();
    tenant.name = tenants_.name(id);
    for (const Tier tier : tiers_here_) {
      const auto at = static_cast<std::size_t>(tier);
      tenant.used_bytes[at] = tenants_.used(id, tier);
      tenant.quota_bytes[at] = tenants_.quota(id, tier);
    }
  }
  stats.expired_blocks = expired_blocks_;
  stats.pins = pins_.size();
  stats.pinned_bytes = pins_.bytes(PinFloor::anywhere);
  stats.pin_capacity_bytes = options_.pin_capacity_bytes;
  stats.disk_hour_bytes = write_budget_.spent_this_hour(clock_.unix_ms());
  stats.disk_day_bytes = write_budget_.spent_this_day(clock_.unix_ms());
  return stats;
}

BlockInfo TieredCache::Impl::describe(const Block& block) const {
  const SpaceEntry& space = space_of(block);
  BlockInfo info;
  info.space = space.digest;
  info.key = block.key;
  info.parent = block.parent ? block.parent->key : space.digest;
  info.depth = block.depth;
  info.tokens.assign(block.tokens().begin(), block.tokens().end());
  for (const Tier tier : all_tiers) info.tiers[static_cast<std::size_t>(tier)] = block.has(tier);
  info.holders =
      (block.device ? block.device->holders : 0) + (block.host ? block.host->holders : 0);
  info.recency = block.recency;
  info.bytes = space.descriptor.block_bytes;
  info.uses = block.policy_uses;
  info.created_unix_ms = latest_of_age_unit(block.created, clock_.unix_ms());
  return info;
}

BlockPage TieredCache::Impl::list(const BlockKey& from, std::size_t limit) const {
  BlockPage page;
  catalog_.index().visit_from(from, [&](const Block& block) {
    if (!block.present()) return true;
    if (page.blocks.size() == limit) {
      page.next = block.key;
      return false;
    }
    page.blocks.push_back(describe(block));
    return true;
  });
  return page;
}

std::optional<BlockDetails> TieredCache::Impl::inspect(const BlockKey& key) const {
  const Block* const block = catalog_.find(key);
  if (!block || !block->present()) return std::nullopt;
  BlockDetails details;
  details.block = describe(*block);
  const auto of_slot = [](const Slot& slot) {
    return BlockDetails::SlotDetails{slot.offset, slot.checksum, slot.verified, slot.session};
  };
  if (block->in_device()) details.device = of_slot(*block->device);
  if (block->in_host()) details.host = of_slot(*block->host);
  if (block->on_disk()) details.disk_bytes = block->disk_bytes();
  for ([[maybe_unused]] const Block* child : block->children) ++details.children;
  if (block->in_device() && block->device->holders > 0)
    for (const auto& [id, session] : sessions_)
      for (const auto& [lease_id, lease] : session.leases)
        if (std::ranges::find(lease.slots, static_cast<const Slot*>(block->device)) !=
            lease.slots.end()) {
          details.holders.push_back(id);
          break;
        }
  if (block->pin != PinFloor::none)
    for (const auto& [pinned, pin] : pins_.pins())
      if (block->depth < pin.chain.size() && pin.chain[block->depth] == key)
        details.pins.push_back(pinned);
  return details;
}

}  // namespace terrace::storage
