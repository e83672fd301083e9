// Finds a block by its key, and lists blocks in the order of their keys. Keys are digests, so the
// place of a key in sorted order can be computed well enough to start looking there: the index is
// 4096 small sorted arrays, picked by the key's first 12 bits, of 8 bytes a block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "storage/catalog/block.h"
#include "storage/catalog/region.h"

namespace terrace::storage {

class KeyIndex {
 public:
  // Blocks lie in `region`.
  explicit KeyIndex(const Region& region) : base_(region.base()), shards_(shard_count) {}

  Block* find(const BlockKey& key) const;
  // Finds many at once, null for those that are not there: the misses of the processor's caches
  // overlap.
  void find(std::span<const BlockKey> keys, std::vector<Block*>& out) const;
  // `block`'s key must not be there yet.
  void insert(Block* block);
  void erase(const Block* block);
  std::size_t size() const { return size_; }
  std::size_t bytes() const;

  // Calls `visit(Block&)` in the order of keys for those >= from until it returns false.
  template <typename Visit>
  void visit_from(const BlockKey& from, Visit visit) const {
    std::size_t shard = shard_of(head_of(from));
    std::size_t at = lower_bound(shards_[shard], prefix_of(head_of(from)), from);
    for (; shard < shard_count; ++shard, at = 0)
      for (; at < shards_[shard].size(); ++at)
        if (!visit(*block_of(shards_[shard][at]))) return;
  }

 private:
  static constexpr std::size_t shard_bits = 12;
  static constexpr std::size_t shard_count = std::size_t{1} << shard_bits;

  struct Entry {
    std::uint32_t prefix;  // the key's bits behind those that pick the shard
    std::uint32_t block;   // its distance from the base, in units of short_pointer_alignment
  };
  using Shard = std::vector<Entry>;

  // The first 8 bytes of a key, big-endian: ordered as keys are.
  static std::uint64_t head_of(const BlockKey& key);
  static std::size_t shard_of(std::uint64_t head) { return head >> (64 - shard_bits); }
  static std::uint32_t prefix_of(std::uint64_t head) {
    return static_cast<std::uint32_t>(head << shard_bits >> 32);
  }
  // Where the prefix would be if keys lay evenly, as digests do.
  static std::size_t expected_place(const Shard& shard, std::uint32_t prefix) {
    return std::uint64_t{prefix} * shard.size() >> 32;
  }
  static std::size_t first_at_least(const Shard& shard, std::uint32_t prefix);
  std::size_t lower_bound(const Shard& shard, std::uint32_t prefix, const BlockKey& key) const;

  Block* block_of(const Entry& entry) const {
    return reinterpret_cast<Block*>(
        const_cast<std::byte*>(base_ + std::size_t{entry.block} * short_pointer_alignment));
  }
  std::uint32_t reference_of(const Block* block) const {
    return static_cast<std::uint32_t>(
        static_cast<std::size_t>(reinterpret_cast<const std::byte*>(block) - base_) /
        short_pointer_alignment);
  }

  const std::byte* base_;
  std::vector<Shard> shards_;
  std::size_t size_ = 0;
};

}  // namespace terrace::storage
