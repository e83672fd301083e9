// What people see of the tree of prefixes: the most recently used ones, as runs of blocks.
#include <algorithm>

#include "storage/cache/impl.h"

namespace terrace::storage {

std::optional<BlockKey> TieredCache::Impl::find_tails(const BlockKey& from, std::size_t looks,
                                                      std::size_t limit,
                                                      std::vector<PrefixTail>& latest) const {
  const auto later = [](const PrefixTail& a, const PrefixTail& b) { return a.recency > b.recency; };
  std::optional<BlockKey> next;
  catalog_.index().visit_from(from, [&](const Block& block) {
    if (looks-- == 0) {
      next = block.key;
      return false;
    }
    if (!block.present() || !block.children.empty()) return true;
    if (latest.size() == limit) {
      if (limit == 0 || block.recency <= latest.front().recency) return true;
      std::ranges::pop_heap(latest, later);
      latest.pop_back();
    }
    latest.push_back({block.key, block.recency});
    std::ranges::push_heap(latest, later);
    return true;
  });
  return next;
}

std::vector<PrefixRun> TieredCache::Impl::prefix_runs(std::span<const PrefixTail> tails,
                                                      std::size_t max_blocks) const {
  // What is shown of the children of each block.
  std::unordered_map<const Block*, std::vector<const Block*>> shown;
  std::vector<const Block*> heads;
  for (const PrefixTail& tail : tails) {
    const Block* block = catalog_.find(tail.key);
    // Whole or not at all; there may be room for a shorter one.
    if (!block || shown.size() + block->depth + 1 > max_blocks) continue;
    for (const Block* below = nullptr; block; below = block, block = block->parent) {
      const auto [place, is_new] = shown.try_emplace(block);
      if (below) place->second.push_back(below);
      if (!is_new) break;
      if (!block->parent) heads.push_back(block);
    }
  }

  const auto by_use = [](const Block* a, const Block* b) {
    return a->recency != b->recency ? a->recency < b->recency : a->key < b->key;
  };
  struct Open {
    const Block* block;
    std::optional<std::size_t> parent;
  };
  std::vector<Open> open;  // the next at the end
  const auto push = [&](std::vector<const Block*> blocks, std::optional<std::size_t> parent) {
    std::ranges::sort(blocks, by_use);
    for (const Block* block : blocks) open.push_back({block, parent});
  };
  push(heads, std::nullopt);
  std::vector<PrefixRun> runs;
  while (!open.empty()) {
    const auto [first, parent] = open.back();
    open.pop_back();
    const SpaceEntry& space = space_of(*first);
    PrefixRun& run = runs.emplace_back();
    run.parent = parent;
    run.space_id = first->space;
    run.space = space.digest;
    run.first = first->key;
    run.depth = first->depth;
    run.tokens.assign(first->tokens().begin(), first->tokens().end());
    for (const Block* block = first;; block = shown.at(block).front()) {
      ++run.blocks;
      run.last = block->key;
      run.bytes += space.descriptor.block_bytes;
      run.recency = std::max<std::uint64_t>(run.recency, block->recency);
      run.holders = std::max(run.holders, block->device ? block->device->holders : 0);
      run.pinned = run.pinned || block->pin != PinFloor::none;
      for (const Tier tier : all_tiers)
        run.blocks_in[static_cast<std::size_t>(tier)] += block->has(tier);
      const std::vector<const Block*>& below = shown.at(block);
      if (below.size() == 1) continue;
      push(below, runs.size() - 1);
      break;
    }
  }
  return runs;
}

}  // namespace terrace::storage
