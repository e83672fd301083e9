// What operators do: pins, and spaces that are dropped; and what tiers may not do meanwhile.
#include <algorithm>
#include <unordered_set>

#include "tests/sim/simulation.h"

namespace terrace::sim {

void Simulation::pin() {
  NodeId id = any_node();
  // Mostly what is there.
  for (int tries = 0; tries < 6 && matched(id) != universe_.node(id).path.size(); ++tries)
    id = any_node();
  const Node& node = universe_.node(id);
  storage::PinOptions options;
  if (random_.chance(0.3)) options.tier = random_.chance(0.7) ? Tier::device : Tier::host;
  if (random_.chance(0.5))
    options.expires_unix_ms =
        clock_->unix_ms() + static_cast<std::int64_t>(random_.between(1, 9000));
  // Nothing may come of a pin that has ended before it began.
  const bool over = random_.chance(0.05);
  if (over) options.expires_unix_ms = clock_->unix_ms();
  const auto pinned = cache_->pin(node.key, options);
  if (over || (options.tier == Tier::host && profile_.host_pages == 0))
    return require(!pinned && pinned.error().code() == StatusCode::invalid_argument,
                   "a pin that makes no sense");
  forget_expired_pins();
  const bool whole = matched(id) == node.path.size();
  if (!whole)
    return require(!pinned && pinned.error().code() == StatusCode::not_found,
                   "a pin of a prefix that is not there");
  auto asked = pins_;
  asked[node.key] = {id, options.tier, options.expires_unix_ms, true};
  const bool fits = fit(asked);
  require(pinned.has_value() == fits, "the budget of pins is misjudged");
  if (!pinned)
    return require(pinned.error().code() == StatusCode::resource_exhausted,
                   "a pin that fits into nothing");
  require(pinned->whole && pinned->blocks == node.path.size(), "a pin of something else");
  pins_ = std::move(asked);
  ++tally_.pins;
}

void Simulation::unpin() {
  forget_expired_pins();
  if (pins_.empty()) return;
  const auto at = std::next(pins_.begin(), static_cast<std::ptrdiff_t>(random_.pick(pins_.size())));
  const BlockKey key = at->first;
  pins_.erase(at);
  require(cache_->unpin(key).ok(), "a pin that cannot be ended");
  require(!cache_->unpin(key).ok(), "a pin that was ended twice");
}

// Whether so much may be pinned: each block counts once, as what asks most for it.
bool Simulation::fit(const std::map<BlockKey, Pinned>& pins) const {
  std::unordered_set<NodeId> anywhere, host, device;
  for (const auto& [key, pin] : pins)
    for (const NodeId one : universe_.node(pin.node).path) {
      anywhere.insert(one);
      if (pin.tier == Tier::device) device.insert(one);
      if (pin.tier) host.insert(one);
    }
  const auto bytes_of_all = [this](const std::unordered_set<NodeId>& nodes) {
    std::uint64_t bytes = 0;
    for (const NodeId one : nodes) bytes += pages_of(one) * page_bytes;
    return bytes;
  };
  std::erase_if(host, [&](NodeId one) { return device.contains(one); });
  const std::uint64_t device_bytes = device_comes_at_ != 0 ? 0 : profile_.device_pages * page_bytes;
  const auto stats = cache_->stats();
  return bytes_of_all(anywhere) <= profile_.pinned_bytes &&
         bytes_of_all(device) <= std::min(device_bytes, stats.tiers[0].capacity_bytes) / 2 &&
         (profile_.host_pages == 0 || bytes_of_all(host) <= stats.tiers[1].capacity_bytes / 2);
}

void Simulation::forget_expired_pins() {
  std::erase_if(pins_, [this](const auto& entry) {
    const std::int64_t until = entry.second.expires_unix_ms;
    return until != 0 && until <= clock_->unix_ms();
  });
}

// After a start: what the disk kept of the pins. After a crash that may be any that ever were.
void Simulation::find_pins_again(bool exactly) {
  forget_expired_pins();
  std::map<BlockKey, Pinned> found;
  for (const storage::PinInfo& info : cache_->pins()) {
    const NodeId node = universe_.find(info.key);
    if (node == no_node) return fail("a pin of an unknown block");
    found[info.key] = {node, info.tier, info.expires_unix_ms, info.whole};
    const auto known = pins_.find(info.key);
    if (exactly && (known == pins_.end() || known->second.tier != info.tier ||
                    known->second.expires_unix_ms != info.expires_unix_ms))
      fail("a pin came back changed");
  }
  require(!exactly || found.size() == pins_.size(), "a pin was forgotten");
  pins_ = std::move(found);
}

void Simulation::check_pins() {
  forget_expired_pins();
  const auto infos = cache_->pins();
  require(infos.size() == pins_.size(), "pins are miscounted");
  for (const storage::PinInfo& info : infos) {
    const auto pin = pins_.find(info.key);
    if (pin == pins_.end()) return fail("a pin that nobody made");
    require(pin->second.tier == info.tier && pin->second.expires_unix_ms == info.expires_unix_ms,
            "a pin of another kind");
    // Nothing but a fault takes a block of a pinned prefix away.
    if (pin->second.whole && !profile_.faults.lose_blocks())
      require(info.whole, "a block of a pinned prefix has left its last tier");
  }
}

void Simulation::drop_space() {
  const auto space = static_cast<std::uint32_t>(random_.pick(universe_.spaces().size()));
  const SpaceOfNodes& nodes = universe_.spaces()[space];
  std::erase_if(
      pins_, [&](const auto& entry) { return universe_.node(entry.second.node).space == space; });
  for (const NodeId node : nodes.nodes)
    put_before_drop_[node] = put_[node] || put_before_drop_[node];
  for (const NodeId node : nodes.nodes) put_[node] = false;
  Dropping& dropping = dropping_[space];
  ++dropping.under_way;
  dropping.last_acquisition = acquisitions_;
  ++tally_.drops;
  cache_->drop_space(nodes.digest, [this, space](const Status& status) {
    Dropping& over = dropping_[space];
    require(over.under_way > 0, "a drop was done twice");
    if (--over.under_way > 0) return;
    if (!status.ok()) return require(profile_.faults.lose_blocks(), "a drop that failed by itself");
    // A record that could not be cleared may be found by a rebuild.
    if (profile_.faults.disk_fails || profile_.faults.disk_full) return;
    for (const NodeId node : universe_.spaces()[space].nodes) {
      put_before_drop_[node] = false;
      if (!put_[node]) promises_.gone(universe_.node(node).key);
    }
  });
}

// What the disk is told to erase is not promised any more: see Promises.
void Simulation::evict_prefix() {
  const auto head = static_cast<NodeId>(random_.pick(universe_.size()));
  const BlockKey key = universe_.node(head).key;
  const bool known = cache_->inspect(key).has_value();
  evicting_.push_back(head);
  ++tally_.evicted_prefixes;
  cache_->evict_prefix(key, [this, head, known](const Result<std::uint64_t>& blocks) {
    const auto under_way = std::ranges::find(evicting_, head);
    if (under_way == evicting_.end()) return fail("an eviction of a prefix was done twice");
    evicting_.erase(under_way);
    const StatusCode code = blocks ? StatusCode::ok : blocks.error().code();
    if (code == StatusCode::not_found)
      return require(!known, "a block that is there was not found");
    if (code == StatusCode::failed_precondition)
      require(!pins_.empty(), "an eviction was refused for a pin that nobody made");
    else if (code != StatusCode::ok)
      require(profile_.faults.lose_blocks(), "an eviction of a prefix failed by itself");
  });
}

bool Simulation::any_dropping() const {
  return std::ranges::any_of(dropping_, [](const Dropping& one) { return one.under_way > 0; });
}

// A drop that a crash cut short may have begun, or not: the next start goes on with it, or finds
// all that was there.
void Simulation::forget_drops() {
  for (NodeId node = 0; node < universe_.size(); ++node) {
    put_[node] = put_[node] || put_before_drop_[node];
    put_before_drop_[node] = false;
  }
  dropping_.assign(universe_.spaces().size(), {});
  evicting_.clear();
}

Simulation::Copies Simulation::copies() {
  Copies copies;
  forget_expired_pins();
  for (const auto& [key, pin] : pins_)
    for (const NodeId node : universe_.node(pin.node).path)
      copies.pinned_to_device[node] = copies.pinned_to_device[node] || pin.tier == Tier::device;
  const auto stats = cache_->stats();
  for (std::size_t tier = 0; tier < copies.evictions.size(); ++tier)
    copies.evictions[tier] = stats.tiers[tier].evictions;
  for (const storage::BlockInfo& block : cache_->list({}, SIZE_MAX).blocks)
    copies.tiers[universe_.find(block.key)] = block.tiers;
  return copies;
}

// In each tier the tail of a prefix goes before its head, also where another tier has the head;
// what is pinned does not go from the disk, nor from the device if it is pinned there.
void Simulation::check_evicted(const Copies& before) {
  const Copies after = copies();
  for (std::size_t tier = 0; tier < before.evictions.size(); ++tier) {
    const auto has = [tier](const Copies& all, NodeId node) {
      const auto at = all.tiers.find(node);
      return at != all.tiers.end() && at->second[tier];
    };
    std::vector<NodeId> gone;
    for (const auto& [node, tiers] : before.tiers)
      if (tiers[tier] && !has(after, node)) gone.push_back(node);
    for (const NodeId node : gone) {
      const auto was = before.pinned_to_device.find(node), is = after.pinned_to_device.find(node);
      if (was == before.pinned_to_device.end() || is == after.pinned_to_device.end()) continue;
      const bool stays =
          tier == static_cast<std::size_t>(Tier::disk) ||
          (tier == static_cast<std::size_t>(Tier::device) && was->second && is->second);
      require(!stays, "a pinned block was evicted");
    }
    // Else one went and came again, and what it left behind is no tail.
    if (after.evictions[tier] - before.evictions[tier] != gone.size()) continue;
    for (const auto& [node, tiers] : before.tiers) {
      const NodeId parent = universe_.node(node).parent;
      if (parent == no_node || !tiers[tier] || !has(after, node)) continue;
      require(std::ranges::find(gone, parent) == gone.end(),
              "a head was evicted from a tier that still has its tail");
    }
  }
}

}  // namespace terrace::sim
