#include "storage/catalog/key_index.h"

#include <algorithm>
#include <cassert>

#include "core/bytes.h"

namespace terrace::storage {

namespace {

// A shard that is full grows by this part of itself: memory a block counts for more here than how
// often a few hundred entries are moved.
constexpr std::size_t growth_fraction = 16;
constexpr std::size_t least_growth = 8;
constexpr std::size_t cache_line_bytes = 64;

}  // namespace

std::uint64_t KeyIndex::head_of(const BlockKey& key) {
  return __builtin_bswap64(load_le<std::uint64_t>(key.bytes.data()));
}

std::size_t KeyIndex::first_at_least(const Shard& shard, std::uint32_t prefix) {
  const std::size_t size = shard.size();
  std::size_t at = expected_place(shard, prefix);  // the walk from there is short
  while (at > 0 && shard[at - 1].prefix >= prefix) --at;
  while (at < size && shard[at].prefix < prefix) ++at;
  return at;
}

std::size_t KeyIndex::lower_bound(const Shard& shard, std::uint32_t prefix,
                                  const BlockKey& key) const {
  std::size_t at = first_at_least(shard, prefix);
  while (at < shard.size() && shard[at].prefix == prefix && block_of(shard[at])->key < key) ++at;
  return at;
}

Block* KeyIndex::find(const BlockKey& key) const {
  const std::uint64_t head = head_of(key);
  const Shard& shard = shards_[shard_of(head)];
  const std::uint32_t prefix = prefix_of(head);
  for (std::size_t at = first_at_least(shard, prefix);
       at < shard.size() && shard[at].prefix == prefix; ++at)
    if (Block* const block = block_of(shard[at]); block->key == key) return block;
  return nullptr;
}

void KeyIndex::find(std::span<const BlockKey> keys, std::vector<Block*>& out) const {
  out.assign(keys.size(), nullptr);
  for (const BlockKey& key : keys) {
    const std::uint64_t head = head_of(key);
    const Shard& shard = shards_[shard_of(head)];
    __builtin_prefetch(shard.data() + expected_place(shard, prefix_of(head)));
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::uint64_t head = head_of(keys[i]);
    const std::uint32_t prefix = prefix_of(head);
    const Shard& shard = shards_[shard_of(head)];
    const std::size_t at = first_at_least(shard, prefix);
    if (at == shard.size() || shard[at].prefix != prefix) continue;
    out[i] = block_of(shard[at]);
    __builtin_prefetch(out[i]);
    // What a match reads of a block may lie across two lines.
    __builtin_prefetch(reinterpret_cast<const std::byte*>(out[i]) + cache_line_bytes / 2);
  }
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (out[i] && out[i]->key != keys[i]) out[i] = find(keys[i]);
}

void KeyIndex::insert(Block* block) {
  const std::uint64_t head = head_of(block->key);
  const std::uint32_t prefix = prefix_of(head);
  Shard& shard = shards_[shard_of(head)];
  const std::size_t at = lower_bound(shard, prefix, block->key);
  assert(at == shard.size() || block_of(shard[at])->key != block->key);
  if (shard.size() == shard.capacity())
    shard.reserve(shard.size() + std::max(least_growth, shard.size() / growth_fraction));
  shard.insert(shard.begin() + static_cast<std::ptrdiff_t>(at), {prefix, reference_of(block)});
  ++size_;
}

void KeyIndex::erase(const Block* block) {
  const std::uint64_t head = head_of(block->key);
  Shard& shard = shards_[shard_of(head)];
  const std::size_t at = lower_bound(shard, prefix_of(head), block->key);
  assert(at < shard.size() && block_of(shard[at]) == block);
  shard.erase(shard.begin() + static_cast<std::ptrdiff_t>(at));
  --size_;
}

std::size_t KeyIndex::bytes() const {
  std::size_t bytes = shards_.size() * sizeof(Shard);
  for (const Shard& shard : shards_) bytes += shard.capacity() * sizeof(Entry);
  return bytes;
}

}  // namespace terrace::storage
