// Makes the policies of an order of eviction.
#pragma once

#include <memory>

#include "storage/policy/eviction_order.h"
#include "storage/policy/eviction_policy.h"
#include "storage/policy/reuse_tracker.h"

namespace terrace::storage {

// Null for an order that learns nothing.
std::unique_ptr<ReuseTracker> make_reuse_tracker(EvictionOrder order);
// Policies that learn from `tracker`, which must outlive them; LRU for null.
EvictionPolicyFactory eviction_policy_factory(const ReuseTracker* tracker);

}  // namespace terrace::storage
