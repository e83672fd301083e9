// Least recently used first, deeper first among equals.
#pragma once

#include "storage/catalog/treap.h"
#include "storage/policy/eviction_policy.h"

namespace terrace::storage {

class LruPolicy final : public EvictionPolicy {
 public:
  explicit LruPolicy(Tier tier) : order_{tier} {}

  void insert(Block& block) override {
    treap::insert(order_, root_, block);
    if (!first_ || order_.before(block, *first_)) first_ = &block;
    ++size_;
  }
  void erase(Block& block) override {
    if (first_ == &block) first_ = treap::next(order_, block);
    treap::erase(order_, root_, block);
    --size_;
  }
  Block* next() const override { return first_; }
  std::size_t size() const override { return size_; }
  bool before(const Block& a, const Block& b) const override { return order_.before(a, b); }

 private:
  struct Order {
    Tier tier;

    TreeLinks& links(Block& block) const { return block.eviction_links(tier); }
    bool before(const Block& a, const Block& b) const {
      if (a.recency != b.recency) return a.recency < b.recency;
      if (a.depth != b.depth) return a.depth > b.depth;
      return a.key < b.key;
    }
  };

  Order order_;
  Block* root_ = nullptr;
  Block* first_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace terrace::storage
