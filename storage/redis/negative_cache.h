// Keys that were not there when the server was last asked: for a short while they are not asked for
// again. Bounded; a pure class: time is handed in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <utility>

#include "core/block_key.h"

namespace terrace::storage::redis {

class NegativeCache {
 public:
  NegativeCache(std::size_t entries, std::int64_t ttl_ns) : entries_(entries), ttl_ns_(ttl_ns) {}

  void insert(const BlockKey& key, std::int64_t now_ns) {
    if (entries_ == 0 || ttl_ns_ == 0) return;
    expire(now_ns);
    while (order_.size() >= entries_) drop_oldest();
    const std::int64_t until_ns = now_ns + ttl_ns_;
    until_[key] = until_ns;
    order_.emplace_back(until_ns, key);
  }

  // This host wrote it.
  void erase(const BlockKey& key) { until_.erase(key); }

  bool contains(const BlockKey& key, std::int64_t now_ns) const {
    const auto at = until_.find(key);
    return at != until_.end() && now_ns < at->second;
  }

  std::size_t size() const { return until_.size(); }

 private:
  void expire(std::int64_t now_ns) {
    while (!order_.empty() && order_.front().first <= now_ns) drop_oldest();
  }
  void drop_oldest() {
    const auto& [until_ns, key] = order_.front();
    // It may have been erased, or inserted again later.
    if (const auto at = until_.find(key); at != until_.end() && at->second == until_ns)
      until_.erase(at);
    order_.pop_front();
  }

  const std::size_t entries_;
  const std::int64_t ttl_ns_;
  std::unordered_map<BlockKey, std::int64_t> until_;
  std::deque<std::pair<std::int64_t, BlockKey>> order_;  // by time; at most entries_
};

}  // namespace terrace::storage::redis
