// What is least worth keeping first, as the reuse index sees it; see reuse_index.h. Blocks whose
// last use is too long ago to be remembered go before, the least recent first.
#pragma once

#include "storage/policy/lru_policy.h"
#include "storage/policy/reuse_order.h"
#include "storage/policy/reuse_tracker.h"

namespace terrace::storage {

class ReusePolicy final : public EvictionPolicy {
 public:
  // The tracker must outlive it. It is told of every use before the block is inserted again.
  ReusePolicy(const ReuseTracker& tracker, Tier tier)
      : tracker_(tracker), tier_(tier), forgotten_(tier), remembered_(tracker.model(), {tier}) {}

  void insert(Block& block) override;
  void erase(Block& block) override;
  Block* next() const override;
  std::size_t size() const override { return forgotten_.size() + remembered_.size(); }
  bool before(const Block& a, const Block& b) const override;

 private:
  struct Access {
    Tier tier = Tier::device;

    TreeLinks& links(Block& block) const { return block.eviction_links(tier); }
    ReuseState state(const Block& block) const { return reuse_state(block); }
    std::uint32_t depth(const Block& block) const { return block.depth; }
  };

  bool remembers(const Block& block) const { return tracker_.model().remembers(block.policy_time); }
  void follow_time() const;

  const ReuseTracker& tracker_;
  Tier tier_;
  // Time passes for those that wait, also while nobody changes anything.
  mutable LruPolicy forgotten_;
  mutable ReuseOrder<Block, Access> remembered_;
};

}  // namespace terrace::storage
