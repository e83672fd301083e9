#include "storage/policy/policy_factory.h"

#include "storage/policy/lru_policy.h"
#include "storage/policy/reuse_policy.h"

namespace terrace::storage {

std::unique_ptr<ReuseTracker> make_reuse_tracker(EvictionOrder order) {
  return order == EvictionOrder::reuse_index ? std::make_unique<ReuseTracker>() : nullptr;
}

EvictionPolicyFactory eviction_policy_factory(const ReuseTracker* tracker) {
  return [tracker](Tier tier) -> std::unique_ptr<EvictionPolicy> {
    if (tracker) return std::make_unique<ReusePolicy>(*tracker, tier);
    return std::make_unique<LruPolicy>(tier);
  };
}

}  // namespace terrace::storage
