// A small cache of keys only, beside a real one: how often would a block have been there if it were
// evicted in this order? Fed with a sample of the keys (all the requests of each), its hits are to
// all uses of the sample what a cache larger by the same factor would have.
// C. A. Waldspurger et al., "Efficient MRC Construction with SHARDS", 2015.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>

#include "storage/policy/reuse_order.h"

namespace terrace::storage {

class ShadowCache {
 public:
  enum class Order { least_recent, reuse_index };

  ShadowCache(const ReuseModel& model, Order order)
      : order_(order), blocks_(model), model_(model) {}

  void set_capacity(std::size_t blocks);
  // Whether `key` was there. It is now, until something else needs its place; `state` is that after
  // the use. Among blocks of a request the deepest goes first.
  bool use(std::uint64_t key, std::uint32_t depth, const ReuseState& state);

 private:
  struct Node {
    struct {
      Node *left = nullptr, *right = nullptr;
    } links;
    std::uint64_t key = 0;
    ReuseState state;
    std::uint32_t depth = 0;
    bool forgotten = false;  // its request is
  };
  struct Access {
    auto& links(Node& node) const { return node.links; }
    ReuseState state(const Node& node) const { return node.state; }
    std::uint32_t depth(const Node& node) const { return node.depth; }
  };

  void evict_one();

  Order order_;
  ReuseOrder<Node, Access> blocks_;
  const ReuseModel& model_;
  std::size_t capacity_ = 0;
  std::unordered_map<std::uint64_t, Node> nodes_;
  // Of requests that are no longer remembered, the least recent first. Some have been used since.
  std::deque<std::pair<std::uint64_t, RequestNumber>> forgotten_;
};

}  // namespace terrace::storage
