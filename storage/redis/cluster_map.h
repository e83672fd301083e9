// Which server has which slots.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/status.h"
#include "storage/redis/redis_options.h"
#include "storage/redis/reply.h"
#include "storage/redis/slot_hash.h"

namespace terrace::storage::redis {

class ClusterMap {
 public:
  // Reads the answer to CLUSTER SLOTS. `answered_by` stands where a node says no host of itself.
  // corruption if it is none.
  static Result<ClusterMap> parse(const Reply& reply, const RedisEndpoint& answered_by);
  // All slots at one server: what a standalone Redis is.
  static ClusterMap of_one(const RedisEndpoint& endpoint);

  // Null: nobody has it.
  const RedisEndpoint* master_of(std::uint16_t slot) const {
    const std::uint16_t index = masters_of_slots_[slot];
    return index == none ? nullptr : &masters_[index];
  }
  // A server said that it is there now.
  void move(std::uint16_t slot, const RedisEndpoint& master);

  const std::vector<RedisEndpoint>& masters() const { return masters_; }
  // All nodes that were named, replicas too: any of them knows the map.
  const std::vector<RedisEndpoint>& nodes() const { return nodes_; }

 private:
  static constexpr std::uint16_t none = 0xffff;
  std::uint16_t index_of(const RedisEndpoint& master);

  std::array<std::uint16_t, slot_count> masters_of_slots_ = [] {
    std::array<std::uint16_t, slot_count> slots;
    slots.fill(none);
    return slots;
  }();
  std::vector<RedisEndpoint> masters_, nodes_;
};

}  // namespace terrace::storage::redis
