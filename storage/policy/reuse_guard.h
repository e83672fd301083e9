// Watches over the reuse index for one tier: two shadow caches of sampled keys say which would have
// had more hits, the index or the least recent first, and the better one decides.
#pragma once

#include <cstddef>
#include <cstdint>

#include "storage/policy/shadow_cache.h"

namespace terrace::storage {

class ReuseGuard {
 public:
  explicit ReuseGuard(const ReuseModel& model)
      : model_(model),
        by_recency_(model, ShadowCache::Order::least_recent),
        by_index_(model, ShadowCache::Order::reuse_index) {}

  // How many blocks the tier has room for.
  void set_capacity(std::size_t blocks);
  // Every use of a block that the tier has or should have had. `state` is that after the use.
  void use(std::uint64_t key, std::uint32_t depth, const ReuseState& state);

  // Whether the least recent should go first for now.
  bool prefers_recency() const { return prefers_recency_; }

 private:
  void weigh();

  const ReuseModel& model_;
  ShadowCache by_recency_, by_index_;
  std::size_t capacity_ = 0;
  unsigned sample_bits_ = 0;  // one key in 2^sample_bits_ is looked at
  bool prefers_recency_ = false;
  // Of the request that is going on, and faded sums over requests.
  RequestNumber request_ = unknown_request;
  double lead_now_ = 0;  // hits by recency less hits by the index
  double lead_ = 0, lead_squares_ = 0, asked_ = 0;
};

}  // namespace terrace::storage
