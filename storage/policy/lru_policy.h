// Least recently used first, deeper first among equals.
#pragma once

#include <set>

#include "storage/policy/eviction_policy.h"

namespace terrace::storage {

class LruPolicy final : public EvictionPolicy {
 public:
  void insert(Block& block) override { blocks_.insert(&block); }
  void erase(Block& block) override { blocks_.erase(&block); }
  Block* next() const override { return blocks_.empty() ? nullptr : *blocks_.begin(); }
  std::size_t size() const override { return blocks_.size(); }
  bool before(const Block& a, const Block& b) const override { return Order()(&a, &b); }

 private:
  struct Order {
    bool operator()(const Block* a, const Block* b) const {
      if (a->recency != b->recency) return a->recency < b->recency;
      if (a->depth != b->depth) return a->depth > b->depth;
      return a->key < b->key;
    }
  };
  std::set<Block*, Order> blocks_;
};

}  // namespace terrace::storage
