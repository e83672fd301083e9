#include "inference/paged_kv/prefix_table.h"

#include <algorithm>
#include <utility>

namespace terrace::inference {

std::vector<KvBlockRef> PrefixTable::find(std::span<const BlockKey> keys) const {
  std::vector<KvBlockRef> found;
  const std::lock_guard lock(mutex_);
  for (const BlockKey& key : keys) {
    const auto entry = blocks_.find(key);
    KvBlockRef block = entry == blocks_.end() ? nullptr : entry->second.lock();
    if (!block) break;
    found.push_back(std::move(block));
  }
  return found;
}

void PrefixTable::publish(const BlockKey& key, const KvBlockRef& block) {
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const KvBlock>& entry = blocks_[key];
  // The one that is held already goes on: the more read it, the fewer copies there are.
  if (entry.expired()) entry = block;
  if (blocks_.size() < sweep_at_) return;
  std::erase_if(blocks_, [](const auto& other) { return other.second.expired(); });
  sweep_at_ = std::max<std::size_t>(1024, 2 * blocks_.size());
}

}  // namespace terrace::inference
