// Finds a block by its key, and lists blocks in the order of their keys. A look-up reads one line
// of the processor's cache here and one or two of the block, and many look-ups wait together.
//
// Keys are digests, so their first bits are as good as any hash: 10 of them pick a shard, the next
// 16 (the tag) a bucket of the shard, in the order of the keys. A bucket is one cache line of up to
// ten tags and blocks. What does not fit goes to the next bucket of the shard that has room.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
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
  void find(std::span<const BlockKey> keys, std::vector<Block*>& out) const {
    out.resize(keys.size());
    find_each(keys, [&](std::size_t i, Block* block) { out[i] = block; });
  }
  // The same, each handed to visit(i, block) in the order of `keys` while its first bytes
  // (matched_bytes) are at hand.
  template <typename Visit>
  void find_each(std::span<const BlockKey> keys, Visit visit) const {
    // Three groups are under way: while one is compared, the memory of the other two arrives.
    std::array<std::array<Probe, group_keys>, 3> probes;
    const std::size_t groups = (keys.size() + group_keys - 1) / group_keys;
    const auto group = [&](std::size_t number) {
      const std::size_t first = number * group_keys;
      return keys.subspan(first, std::min(group_keys, keys.size() - first));
    };
    for (std::size_t turn = 0; turn < groups + 2; ++turn) {
      if (turn < groups) ask(group(turn), probes[turn % 3]);
      if (turn >= 1 && turn <= groups) guess(group(turn - 1).size(), probes[(turn - 1) % 3]);
      if (turn < 2) continue;
      const std::span<const BlockKey> asked = group(turn - 2);
      std::array<Probe, group_keys>& found = probes[(turn - 2) % 3];
      confirm(asked, found);
      for (std::size_t i = 0; i < asked.size(); ++i)
        visit((turn - 2) * group_keys + i, found[i].block);
    }
  }
  // `block`'s key must not be there yet.
  void insert(Block* block);
  void erase(const Block* block);
  std::size_t size() const { return size_; }
  std::size_t bytes() const;

  // Calls `visit(Block&)` in the order of keys for those >= from until it returns false. The index
  // must not change meanwhile.
  template <typename Visit>
  void visit_from(const BlockKey& from, Visit visit) const {
    std::vector<Tagged> heap;
    std::vector<Block*> next;
    std::uint16_t least = tag_of(head_of(from));
    for (std::size_t shard = shard_of(head_of(from)); shard < shard_count; ++shard, least = 0) {
      collect(shards_[shard], least, heap);
      while (!heap.empty()) {
        take_least(heap, next);
        for (Block* block : next)
          if (block->key >= from && !visit(*block)) return;
      }
    }
  }

 private:
  static constexpr std::size_t shard_bits = 10;
  static constexpr std::size_t shard_count = std::size_t{1} << shard_bits;
  static constexpr std::size_t tag_bits = 16;
  static constexpr std::size_t bucket_entries = 10;

  struct alignas(64) Bucket {
    std::uint16_t tags[bucket_entries];
    std::uint8_t count;  // entries in use, from the first on
    std::uint8_t unused;
    std::uint16_t spilled;  // entries that found no room here; at its maximum it stays there
    std::uint32_t blocks[bucket_entries];  // distances from the base
  };
  // Look-ups that are at the same stage: about as many as the processor has misses under way.
  static constexpr std::size_t group_keys = 16;
  struct Probe {
    const Bucket* bucket;  // null: the shard is empty
    Block* block;          // that is probably meant
    std::uint16_t tag;
    bool spilled;  // where there is none, another bucket may have it
  };
  struct Tagged {
    std::uint16_t tag;
    std::uint32_t block;
  };
  struct Shard {
    std::unique_ptr<Bucket[]> buckets;
    std::uint32_t bucket_count = 0;
    std::uint32_t size = 0;
  };

  // The stages of find_each(): each asks for the memory that the next one reads.
  void ask(std::span<const BlockKey> keys, std::array<Probe, group_keys>& probes) const;
  void guess(std::size_t count, std::array<Probe, group_keys>& probes) const;
  void confirm(std::span<const BlockKey> keys, std::array<Probe, group_keys>& probes) const;

  // The first 8 bytes of a key, big-endian: ordered as keys are.
  static std::uint64_t head_of(const BlockKey& key);
  static std::size_t shard_of(std::uint64_t head) { return head >> (64 - shard_bits); }
  static std::uint16_t tag_of(std::uint64_t head) {
    return static_cast<std::uint16_t>(head << shard_bits >> (64 - tag_bits));
  }
  static std::size_t home_of(const Shard& shard, std::uint16_t tag) {
    return std::size_t{tag} * shard.bucket_count >> tag_bits;
  }

  // Bit i for each entry i in use that has the tag.
  static unsigned entries_with(const Bucket& bucket, std::uint16_t tag);
  static void put(Shard& shard, std::uint16_t tag, std::uint32_t block);
  static void resize(Shard& shard, std::size_t bucket_count);
  // The entries of a shard with this tag or a greater one, as a heap: whoever lists a few blocks
  // does not wait until all are in order.
  static void collect(const Shard& shard, std::uint16_t least, std::vector<Tagged>& heap);
  // Takes all blocks with the least tag out of the heap, in the order of their keys.
  void take_least(std::vector<Tagged>& heap, std::vector<Block*>& out) const;

  Block* block_at(std::uint32_t distance) const {
    return reinterpret_cast<Block*>(
        const_cast<std::byte*>(base_ + std::size_t{distance} * short_pointer_alignment));
  }
  std::uint32_t distance_of(const Block* block) const {
    return static_cast<std::uint32_t>(
        static_cast<std::size_t>(reinterpret_cast<const std::byte*>(block) - base_) /
        short_pointer_alignment);
  }

  const std::byte* base_;
  std::vector<Shard> shards_;
  std::size_t size_ = 0;
};

}  // namespace terrace::storage
