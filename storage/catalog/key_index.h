// Finds a block by its key, and lists blocks in the order of their keys. Keys are digests, so the
// place of a key in sorted order can be computed well enough to start looking there: the index is
// 4096 small sorted arrays, picked by the key's first 12 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "storage/catalog/block.h"

namespace terrace::storage {

class KeyIndex {
 public:
  KeyIndex() : shards_(shard_count) {}

  Block* find(const BlockKey& key) const;
  // Finds many at once, null for those that are not there: the misses of the processor's caches
  // overlap.
  void find(std::span<const BlockKey> keys, std::vector<Block*>& out) const;
  // `block`'s key must not be there yet.
  void insert(Block* block);
  void erase(const Block* block);
  std::size_t size() const { return size_; }

  // Calls `visit(Block&)` in the order of keys for those >= from until it returns false.
  template <typename Visit>
  void visit_from(const BlockKey& from, Visit visit) const {
    std::size_t shard = shard_of(prefix_of(from));
    std::size_t at = lower_bound(shards_[shard], prefix_of(from), from);
    for (; shard < shard_count; ++shard, at = 0)
      for (; at < shards_[shard].size(); ++at)
        if (!visit(*shards_[shard][at].block)) return;
  }

 private:
  static constexpr std::size_t shard_bits = 12;
  static constexpr std::size_t shard_count = std::size_t{1} << shard_bits;

  struct Entry {
    std::uint64_t prefix;  // the key's first 8 bytes, big-endian: ordered as keys are
    Block* block;
  };
  using Shard = std::vector<Entry>;

  static std::uint64_t prefix_of(const BlockKey& key);
  static std::size_t shard_of(std::uint64_t prefix) { return prefix >> (64 - shard_bits); }
  static std::size_t first_at_least(const Shard& shard, std::uint64_t prefix);
  static std::size_t lower_bound(const Shard& shard, std::uint64_t prefix, const BlockKey& key);

  std::vector<Shard> shards_;
  std::size_t size_ = 0;
};

}  // namespace terrace::storage
