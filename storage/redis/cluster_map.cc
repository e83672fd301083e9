#include "storage/redis/cluster_map.h"

#include <algorithm>
#include <optional>

namespace terrace::storage::redis {

namespace {

// [host, port, id, ...]
std::optional<RedisEndpoint> parse_node(const Reply& node, const RedisEndpoint& answered_by) {
  if (node.kind != Reply::Kind::list || node.elements.size() < 2) return std::nullopt;
  const Reply &host = node.elements[0], &port = node.elements[1];
  if (port.kind != Reply::Kind::integer || port.integer <= 0 || port.integer > 0xffff)
    return std::nullopt;
  RedisEndpoint endpoint{host.text, static_cast<std::uint16_t>(port.integer)};
  // Nil: it does not know its own name; "?": a name that was not configured.
  if (endpoint.host.empty() || endpoint.host == "?") endpoint.host = answered_by.host;
  if (endpoint.host.size() > max_redis_text_bytes) return std::nullopt;
  return endpoint;
}

}  // namespace

Result<ClusterMap> ClusterMap::parse(const Reply& reply, const RedisEndpoint& answered_by) {
  const auto none_such = [] {
    return error(StatusCode::corruption, "the answer to CLUSTER SLOTS is no map of slots");
  };
  if (reply.kind != Reply::Kind::list) return none_such();
  ClusterMap map;
  for (const Reply& range : reply.elements) {
    if (range.kind != Reply::Kind::list || range.elements.size() < 3) return none_such();
    const std::int64_t first = range.elements[0].integer, last = range.elements[1].integer;
    if (first < 0 || last < first || last >= slot_count) return none_such();
    for (std::size_t i = 2; i < range.elements.size(); ++i) {
      const auto node = parse_node(range.elements[i], answered_by);
      if (!node) return none_such();
      if (std::ranges::find(map.nodes_, *node) == map.nodes_.end()) map.nodes_.push_back(*node);
      if (i > 2) continue;  // a replica
      const std::uint16_t index = map.index_of(*node);
      std::fill(map.masters_of_slots_.begin() + first, map.masters_of_slots_.begin() + last + 1,
                index);
    }
  }
  return map;
}

ClusterMap ClusterMap::of_one(const RedisEndpoint& endpoint) {
  ClusterMap map;
  map.masters_of_slots_.fill(map.index_of(endpoint));
  map.nodes_ = {endpoint};
  return map;
}

void ClusterMap::move(std::uint16_t slot, const RedisEndpoint& master) {
  masters_of_slots_[slot] = index_of(master);
}

std::uint16_t ClusterMap::index_of(const RedisEndpoint& master) {
  const auto at = std::ranges::find(masters_, master);
  const auto index = static_cast<std::uint16_t>(at - masters_.begin());
  if (at == masters_.end()) masters_.push_back(master);
  return index;
}

}  // namespace terrace::storage::redis
