// The complete blocks that sequences of this process hold, by key: what one of them computed, the
// others read where it lies, whether or not a daemon has taken it in yet, or is there at all.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/block_key.h"
#include "inference/paged_kv/kv_block.h"

namespace terrace::inference {

// Holds no block: one that no sequence holds any more is not found. Thread-safe.
class PrefixTable {
 public:
  // The blocks of the leading run of `keys` that is held.
  std::vector<KvBlockRef> find(std::span<const BlockKey> keys) const;
  // The block of this key is complete, and changes no more.
  void publish(const BlockKey& key, const KvBlockRef& block);

 private:
  mutable std::mutex mutex_;
  std::unordered_map<BlockKey, std::weak_ptr<const KvBlock>> blocks_;
  std::size_t sweep_at_ = 1024;  // entries; then those of no use are dropped
};

}  // namespace terrace::inference
