// What must hold after every step.
#include <algorithm>
#include <unordered_set>

#include "tests/sim/simulation.h"

namespace terrace::sim {

void Simulation::check(bool thorough) {
  ++tally_.checks;
  const Status invariants = cache_->check_invariants();
  if (!invariants.ok()) return fail(invariants.message());
  check_counters();
  check_held_bytes();
  check_pins();
  if (disk_) disk_->check();
  if (thorough) check_listing();
}

// Every lease is accounted for, and no tier is over its cap.
void Simulation::check_counters() {
  const storage::CacheStats stats = cache_->stats();
  std::size_t leases = 0, reserved = 0, out_of_reach = 0, waiting = 0;
  std::unordered_set<NodeId> pending;
  for (const auto& [session, client] : clients_) {
    leases += client->leases.size();
    for (const auto& [id, lease] : client->leases) {
      reserved += lease.reserved.size();
      waiting += lease.waiting.size();
      if (client->abandoned) out_of_reach += lease.reserved.size();
      for (const Held& held : lease.reserved)
        if (!client->abandoned && held.name != no_node) pending.insert(held.name);
    }
  }
  require(stats.sessions == clients_.size(), "sessions are miscounted");
  require(stats.leases == leases, "leases are miscounted");
  require(stats.reserved_slots == reserved, "reserved slots are miscounted");
  require(stats.quarantined_slots >= out_of_reach, "quarantined slots are miscounted");
  require(stats.pending_blocks == pending.size(), "pending blocks are miscounted");
  require(stats.waiting_acquires <= waiting, "waiting acquisitions are miscounted");
  for (const storage::TierStats& tier : stats.tiers) {
    // The index of a store grows into the room of blocks, which go as others come: there, what
    // counts is what the files take (SimulatedDisk::check()).
    const bool store =
        profile_.store && &tier == &stats.tiers[static_cast<std::size_t>(Tier::disk)];
    require(store || tier.used_bytes <= tier.capacity_bytes, "a tier is over its cap");
  }
  if (!profile_.faults.lose_blocks()) {
    // What comes from Redis comes in any order and in part: a block may come without the one before
    // it, which is in Redis. And while a space is dropped its heads go before their tails.
    if (!stats.remote && !any_dropping())
      require(stats.holes == 0, "a hole although nothing was ever lost");
    for (const storage::TierStats& tier : stats.tiers) {
      // Room that is free in pieces may be too short for a record.
      const bool real_disk =
          profile_.store && &tier == &stats.tiers[static_cast<std::size_t>(Tier::disk)];
      const std::uint64_t no_room = real_disk ? promises_.no_space_answers() : 0;
      require(tier.failures == no_room && tier.corruptions == 0, "a failure that nobody made");
    }
  }
  check_quotas(stats);
  note(stats.tiers[0].used_bytes);
}

void Simulation::check_quotas(const storage::CacheStats& stats) {
  // The few blocks that are left in a slab move together, and lie in two places meanwhile.
  const std::uint64_t moving_bytes = profile_.slab_pages * page_bytes;
  for (const storage::TenantStats& tenant : stats.tenants) {
    for (const Tier tier : {Tier::device, Tier::host, Tier::disk}) {
      // A crash may bring back what was erased.
      if (tier == Tier::disk && tally_.crashes + tally_.lost_indices > 0) continue;
      const auto at = static_cast<std::size_t>(tier);
      const std::uint64_t over = tier == Tier::disk ? 0 : moving_bytes;
      require(tenant.used_bytes[at] <= tenant.quota_bytes[at] ||
                  tenant.used_bytes[at] - tenant.quota_bytes[at] <= over,
              "a tenant is over its quota");
    }
  }
}

// No block that a match cannot reach, unless an ancestor was lost.
void Simulation::check_listing() {
  std::unordered_set<BlockKey> there;
  std::vector<NodeId> nodes;
  std::optional<BlockKey> from = BlockKey{};
  while (from) {
    const storage::BlockPage page = cache_->list(*from, 1 + step_ % 64);
    for (const storage::BlockInfo& block : page.blocks) {
      require(there.insert(block.key).second, "a block is listed twice");
      const NodeId node = universe_.find(block.key);
      if (node == no_node || !(put_[node] || is_dropping(universe_.node(node).space)))
        return fail("a block is there that nobody put");
      require(universe_.node(node).tokens == block.tokens, "a block with other tokens");
      // What Redis is believed to have may be out of reach.
      if (block.tiers[0] || block.tiers[1] || block.tiers[2]) nodes.push_back(node);
    }
    from = page.next;
  }
  const bool holes = cache_->stats().holes > 0 || any_dropping();
  for (const NodeId node : nodes) {
    const NodeId parent = universe_.node(node).parent;
    if (parent != no_node && !holes)
      require(there.contains(universe_.node(parent).key), "a tail that no match can reach");
  }
}

void Simulation::check_held_bytes() {
  for (const auto& [session, client] : clients_)
    for (const auto& [id, lease] : client->leases)
      for (const Held& held : lease.held)
        if (!holds(held.slot, held.node) && !marks_.contains(held.slot))
          return fail("held bytes changed");
}

// When everybody is gone, all memory in use holds a block.
void Simulation::check_nothing_leaks() {
  const storage::CacheStats stats = cache_->stats();
  require(stats.sessions + stats.leases + stats.reserved_slots + stats.quarantined_slots +
                  stats.pending_blocks ==
              0,
          "something is left of sessions that ended");
  std::uint64_t device = 0, host = 0;
  for (const storage::BlockInfo& block : cache_->list({}, SIZE_MAX).blocks) {
    const NodeId node = universe_.find(block.key);
    if (block.tiers[0]) device += pages_of(node) * page_bytes;
    if (block.tiers[1]) host += pages_of(node) * page_bytes;
    require(block.holders == 0, "a block is held by nobody");
  }
  require(stats.tiers[0].used_bytes == device, "device memory has leaked");
  require(stats.tiers[1].used_bytes == host, "host memory has leaked");
  if (disk_) require(stats.tiers[2].used_bytes == disk_->used_bytes(), "room on disk has leaked");
}

// A get returns all that a match promised, where nothing is broken.
void Simulation::check_everything_can_be_had() {
  // Nobody takes what is another tenant's share.
  if (profile_.faults.lose_blocks() || !disk_ || !profile_.tenants.empty()) return;
  // Nor what an operator keeps in the device tier.
  for (const storage::PinInfo& pin : cache_->pins())
    require(cache_->unpin(pin.key).ok(), "a pin that cannot be ended");
  pins_.clear();
  settle_everything();
  for (NodeId id = 0; id < universe_.size() && !failed(); ++id) {
    const Node& node = universe_.node(id);
    const std::uint64_t slots =
        profile_.device_pages / profile_.slab_pages *
        (profile_.slab_pages * page_bytes / universe_.spaces()[node.space].slot_bytes);
    constexpr int most_attempts = 40;
    // What makes room for the rest of a prefix may push its tail off the disk.
    const auto wanted = [&] { return std::min<std::size_t>(matched(id), slots); };
    std::size_t got = 0;
    // An acquisition takes what is there at once. What it finds in its way, copied down or moved
    // together, is out of the way of the next one.
    for (int attempt = 0; attempt < most_attempts && got < wanted(); ++attempt) {
      const SessionId session = cache_->open_session();
      cache_->acquire(session, 1, id_of(node.space), node.path_keys, {},
                      [&](const std::vector<AcquiredBlock>& blocks) {
                        got = blocks.size();
                        for (std::size_t i = 0; i < got; ++i)
                          require(holds(blocks[i].slot, node.path[i]), "wrong bytes");
                      });
      settle_everything();
      cache_->end_session(session);
      settle_everything();
    }
    require(got >= wanted(), "a block that is there could not be had");
  }
}

}  // namespace terrace::sim
