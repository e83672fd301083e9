#include "storage/catalog/key_index.h"

#include <cassert>

#include "core/bytes.h"

namespace terrace::storage {

std::uint64_t KeyIndex::prefix_of(const BlockKey& key) {
  return __builtin_bswap64(load_le<std::uint64_t>(key.bytes.data()));
}

std::size_t KeyIndex::first_at_least(const Shard& shard, std::uint64_t prefix) {
  const std::size_t size = shard.size();
  if (size == 0) return 0;
  // Where the prefix would be if keys lay evenly; the walk from there is short, since they do.
  std::size_t at = ((prefix << shard_bits) >> 32) * size >> 32;
  while (at > 0 && shard[at - 1].prefix >= prefix) --at;
  while (at < size && shard[at].prefix < prefix) ++at;
  return at;
}

std::size_t KeyIndex::lower_bound(const Shard& shard, std::uint64_t prefix, const BlockKey& key) {
  std::size_t at = first_at_least(shard, prefix);
  while (at < shard.size() && shard[at].prefix == prefix && shard[at].block->key < key) ++at;
  return at;
}

Block* KeyIndex::find(const BlockKey& key) const {
  const std::uint64_t prefix = prefix_of(key);
  const Shard& shard = shards_[shard_of(prefix)];
  for (std::size_t at = first_at_least(shard, prefix);
       at < shard.size() && shard[at].prefix == prefix; ++at)
    if (shard[at].block->key == key) return shard[at].block;
  return nullptr;
}

void KeyIndex::find(std::span<const BlockKey> keys, std::vector<Block*>& out) const {
  out.assign(keys.size(), nullptr);
  for (const BlockKey& key : keys) __builtin_prefetch(shards_[shard_of(prefix_of(key))].data());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::uint64_t prefix = prefix_of(keys[i]);
    const Shard& shard = shards_[shard_of(prefix)];
    const std::size_t at = first_at_least(shard, prefix);
    if (at == shard.size() || shard[at].prefix != prefix) continue;
    out[i] = shard[at].block;
    __builtin_prefetch(out[i]);
    __builtin_prefetch(&out[i]->device);
  }
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (out[i] && out[i]->key != keys[i]) out[i] = find(keys[i]);
}

void KeyIndex::insert(Block* block) {
  const std::uint64_t prefix = prefix_of(block->key);
  Shard& shard = shards_[shard_of(prefix)];
  const std::size_t at = lower_bound(shard, prefix, block->key);
  assert(at == shard.size() || shard[at].block->key != block->key);
  shard.insert(shard.begin() + static_cast<std::ptrdiff_t>(at), {prefix, block});
  ++size_;
}

void KeyIndex::erase(const Block* block) {
  const std::uint64_t prefix = prefix_of(block->key);
  Shard& shard = shards_[shard_of(prefix)];
  const std::size_t at = lower_bound(shard, prefix, block->key);
  assert(at < shard.size() && shard[at].block == block);
  shard.erase(shard.begin() + static_cast<std::ptrdiff_t>(at));
  --size_;
}

}  // namespace terrace::storage
