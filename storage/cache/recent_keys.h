// A few keys and when each was last added: the oldest are taken out first. Bounded by who uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>

#include "core/block_key.h"

namespace terrace::storage {

class RecentKeys {
 public:
  // Makes it the newest. Times never go back.
  void add(const BlockKey& key, std::int64_t now_ns) {
    if (const auto found = places_.find(key); found != places_.end()) {
      found->second->added_ns = now_ns;
      entries_.splice(entries_.end(), entries_, found->second);
      return;
    }
    entries_.push_back({key, now_ns});
    places_.emplace(key, std::prev(entries_.end()));
  }
  void erase(const BlockKey& key) {
    const auto found = places_.find(key);
    if (found == places_.end()) return;
    entries_.erase(found->second);
    places_.erase(found);
  }
  bool contains(const BlockKey& key) const { return places_.contains(key); }
  std::size_t size() const { return entries_.size(); }

  // The oldest, if it was added at that time or before; nothing else.
  std::optional<BlockKey> take_added_by(std::int64_t time_ns) {
    if (entries_.empty() || entries_.front().added_ns > time_ns) return std::nullopt;
    const BlockKey key = entries_.front().key;
    places_.erase(key);
    entries_.pop_front();
    return key;
  }

 private:
  struct Entry {
    BlockKey key;
    std::int64_t added_ns = 0;
  };
  std::list<Entry> entries_;
  std::unordered_map<BlockKey, std::list<Entry>::iterator> places_;
};

}  // namespace terrace::storage
