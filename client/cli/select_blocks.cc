#include "client/cli/select_blocks.h"

#include <algorithm>
#include <utility>

namespace terrace::cli {
namespace {

// Blocks with a larger rank come first.
std::uint64_t rank(const ListedBlock& block, BlockOrder order) {
  switch (order) {
    case BlockOrder::hits:
      return block.uses;
    case BlockOrder::age:
      return ~static_cast<std::uint64_t>(block.created_unix_ms);
    case BlockOrder::size:
      return block.bytes;
    case BlockOrder::last_use:
      return block.recency;
    case BlockOrder::depth:
      return block.depth;
    case BlockOrder::holders:
      return block.holders;
    case BlockOrder::key:
    case BlockOrder::prefix:
      break;
  }
  return 0;
}

struct Before {
  BlockOrder order;
  bool reverse;
  bool operator()(const ListedBlock& a, const ListedBlock& b) const {
    const std::uint64_t of_a = rank(a, order), of_b = rank(b, order);
    return of_a != of_b ? (of_a > of_b) != reverse : a.key < b.key;
  }
};

}  // namespace

bool BlockFilter::takes(const ListedBlock& block) const {
  return (!tier || block.tiers[static_cast<std::size_t>(*tier)]) &&
         (spaces.empty() || spaces.contains(block.space)) && block.depth >= min_depth &&
         (!held || block.holders > 0);
}

void FirstBlocks::add(const ListedBlock& block) {
  ++seen_;
  const Before before{order_, reverse_};
  heap_.push_back(block);
  std::ranges::push_heap(heap_, before);
  if (limit_ == 0 || heap_.size() <= limit_) return;
  std::ranges::pop_heap(heap_, before);
  heap_.pop_back();
}

std::vector<ListedBlock> FirstBlocks::take() {
  std::ranges::sort_heap(heap_, Before{order_, reverse_});
  return std::exchange(heap_, {});
}

}  // namespace terrace::cli
