// Who goes first among the blocks that may go. Which blocks may go (nobody holds them, nothing is
// reachable only through them: tails before heads) is decided elsewhere; a policy only orders them.
//
// A policy orders the copies of one tier. For its order it has block.eviction_links(tier), which
// are its own from insert() to erase(), and the policy_* members of the block.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "storage/catalog/block.h"

namespace terrace::storage {

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;
  // Its recency does not change while a block is in.
  virtual void insert(Block& block) = 0;
  virtual void erase(Block& block) = 0;
  // The one to go next, null if there is none. O(1).
  virtual Block* next() const = 0;
  virtual std::size_t size() const = 0;
  // Whether `a` should go before `b`: compares what different policies would evict next.
  virtual bool before(const Block& a, const Block& b) const = 0;
};

using EvictionPolicyFactory = std::function<std::unique_ptr<EvictionPolicy>(Tier)>;

}  // namespace terrace::storage
