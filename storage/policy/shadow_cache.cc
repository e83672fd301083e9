#include "storage/policy/shadow_cache.h"

namespace terrace::storage {

void ShadowCache::set_capacity(std::size_t blocks) {
  capacity_ = blocks;
  while (nodes_.size() > capacity_) evict_one();
}

bool ShadowCache::use(std::uint64_t key, std::uint32_t depth, const ReuseState& state) {
  blocks_.advance([&](Node& node) {
    node.forgotten = true;
    forgotten_.emplace_back(node.key, node.state.request);
  });
  const auto [found, made] = nodes_.try_emplace(key);
  Node& node = found->second;
  if (!made && !node.forgotten) blocks_.erase(node);
  node.key = key;
  node.depth = depth;
  node.state = state;
  node.forgotten = !model_.remembers(state.request);
  if (node.forgotten)
    forgotten_.emplace_back(key, state.request);
  else
    blocks_.insert(node);
  while (nodes_.size() > capacity_) evict_one();
  return !made;
}

void ShadowCache::evict_one() {
  while (!forgotten_.empty()) {
    const auto [key, request] = forgotten_.front();
    forgotten_.pop_front();
    const auto found = nodes_.find(key);
    if (found == nodes_.end() || !found->second.forgotten || found->second.state.request != request)
      continue;
    nodes_.erase(found);
    return;
  }
  Node* const node = order_ == Order::least_recent ? blocks_.oldest() : blocks_.lowest();
  blocks_.erase(*node);
  nodes_.erase(node->key);
}

}  // namespace terrace::storage
