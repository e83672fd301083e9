#include "storage/catalog/key_index.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <functional>
#include <limits>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "core/bytes.h"

namespace terrace::storage {

namespace {

// Entries a bucket on average at most, of ten: one in seven then goes to another bucket than its
// own.
constexpr double full_load = 7.5;
// A shard that is full grows by this part of itself; it shrinks when its buckets are emptier than
// least_load. Nothing but the shard is read for that.
constexpr std::size_t growth_fraction = 16;
constexpr double least_load = 3;
constexpr std::uint16_t spilled_for_good = std::numeric_limits<std::uint16_t>::max();

}  // namespace

std::uint64_t KeyIndex::head_of(const BlockKey& key) {
  return __builtin_bswap64(load_le<std::uint64_t>(key.bytes.data()));
}

unsigned KeyIndex::entries_with(const Bucket& bucket, std::uint16_t tag) {
  unsigned found = 0;
#ifdef __SSE2__
  // Both halves lie within the bucket: what is compared past the tags is masked out below.
  const __m128i wanted = _mm_set1_epi16(static_cast<short>(tag));
  const auto* const from = reinterpret_cast<const __m128i*>(&bucket);
  const __m128i low = _mm_cmpeq_epi16(_mm_load_si128(from), wanted);
  const __m128i high = _mm_cmpeq_epi16(_mm_load_si128(from + 1), wanted);
  found = static_cast<unsigned>(_mm_movemask_epi8(_mm_packs_epi16(low, high)));
#else
  for (std::size_t i = 0; i < bucket_entries; ++i)
    found |= static_cast<unsigned>(bucket.tags[i] == tag) << i;
#endif
  return found & ((1u << bucket.count) - 1);
}

Block* KeyIndex::find(const BlockKey& key) const {
  const std::uint64_t head = head_of(key);
  const Shard& shard = shards_[shard_of(head)];
  const std::uint16_t tag = tag_of(head);
  std::size_t at = home_of(shard, tag);
  for (std::size_t looks = 0; looks < shard.bucket_count; ++looks) {
    const Bucket& bucket = shard.buckets[at];
    for (unsigned left = entries_with(bucket, tag); left != 0; left &= left - 1) {
      Block* const block = block_at(bucket.blocks[std::countr_zero(left)]);
      if (block->key == key) return block;
    }
    if (bucket.spilled == 0) break;
    if (++at == shard.bucket_count) at = 0;
  }
  return nullptr;
}

void KeyIndex::ask(std::span<const BlockKey> keys, std::array<Probe, group_keys>& probes) const {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::uint64_t head = head_of(keys[i]);
    const Shard& shard = shards_[shard_of(head)];
    Probe& probe = probes[i];
    probe.tag = tag_of(head);
    // Of an empty shard that is null.
    probe.bucket = shard.buckets.get() + home_of(shard, probe.tag);
    __builtin_prefetch(probe.bucket);
  }
}

void KeyIndex::guess(std::size_t count, std::array<Probe, group_keys>& probes) const {
  for (std::size_t i = 0; i < count; ++i) {
    Probe& probe = probes[i];
    probe.block = nullptr;
    probe.spilled = false;
    if (!probe.bucket) continue;
    const Bucket& bucket = *probe.bucket;
    if (const unsigned found = entries_with(bucket, probe.tag); found != 0) {
      probe.block = block_at(bucket.blocks[std::countr_zero(found)]);
      const auto* const from = reinterpret_cast<const std::byte*>(probe.block);
      __builtin_prefetch(from);
      __builtin_prefetch(from + matched_bytes - 1);  // often in the same line
    } else {
      probe.spilled = bucket.spilled != 0;
    }
  }
}

void KeyIndex::confirm(std::span<const BlockKey> keys,
                       std::array<Probe, group_keys>& probes) const {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    Probe& probe = probes[i];
    if (probe.block ? probe.block->key != keys[i] : probe.spilled) probe.block = find(keys[i]);
  }
}

void KeyIndex::put(Shard& shard, std::uint16_t tag, std::uint32_t block) {
  std::size_t at = home_of(shard, tag);
  while (shard.buckets[at].count == bucket_entries) {
    Bucket& full = shard.buckets[at];
    if (full.spilled != spilled_for_good) ++full.spilled;
    if (++at == shard.bucket_count) at = 0;
  }
  Bucket& bucket = shard.buckets[at];
  bucket.tags[bucket.count] = tag;
  bucket.blocks[bucket.count++] = block;
}

void KeyIndex::resize(Shard& shard, std::size_t bucket_count) {
  Shard made;
  made.buckets = std::make_unique<Bucket[]>(bucket_count);
  made.bucket_count = static_cast<std::uint32_t>(bucket_count);
  made.size = shard.size;
  for (std::size_t at = 0; at < shard.bucket_count; ++at) {
    const Bucket& bucket = shard.buckets[at];
    for (std::size_t i = 0; i < bucket.count; ++i) put(made, bucket.tags[i], bucket.blocks[i]);
  }
  shard = std::move(made);
}

void KeyIndex::insert(Block* block) {
  const std::uint64_t head = head_of(block->key);
  Shard& shard = shards_[shard_of(head)];
  if (shard.size + 1 > full_load * shard.bucket_count)
    resize(shard, shard.bucket_count + 1 + shard.bucket_count / growth_fraction);
  put(shard, tag_of(head), distance_of(block));
  ++shard.size;
  ++size_;
}

void KeyIndex::erase(const Block* block) {
  const std::uint64_t head = head_of(block->key);
  Shard& shard = shards_[shard_of(head)];
  const std::uint16_t tag = tag_of(head);
  const std::uint32_t distance = distance_of(block);
  for (std::size_t at = home_of(shard, tag);;) {
    Bucket& bucket = shard.buckets[at];
    for (unsigned left = entries_with(bucket, tag); left != 0; left &= left - 1) {
      const auto i = static_cast<std::size_t>(std::countr_zero(left));
      if (bucket.blocks[i] != distance) continue;
      --bucket.count;
      bucket.tags[i] = bucket.tags[bucket.count];
      bucket.blocks[i] = bucket.blocks[bucket.count];
      --size_;
      --shard.size;
      if (shard.bucket_count > 1 && shard.size < least_load * shard.bucket_count)
        resize(shard, static_cast<std::size_t>(shard.size / full_load) + 1 +
                          shard.bucket_count / growth_fraction);
      return;
    }
    // It is further on, so it was counted here.
    assert(bucket.spilled > 0);
    if (bucket.spilled != spilled_for_good) --bucket.spilled;
    if (++at == shard.bucket_count) at = 0;
  }
}

void KeyIndex::collect(const Shard& shard, std::uint16_t least, std::vector<Tagged>& heap) {
  heap.clear();
  for (std::size_t at = 0; at < shard.bucket_count; ++at) {
    const Bucket& bucket = shard.buckets[at];
    for (std::size_t i = 0; i < bucket.count; ++i)
      if (bucket.tags[i] >= least) heap.push_back({bucket.tags[i], bucket.blocks[i]});
  }
  std::ranges::make_heap(heap, std::ranges::greater(), &Tagged::tag);
}

void KeyIndex::take_least(std::vector<Tagged>& heap, std::vector<Block*>& out) const {
  out.clear();
  const std::uint16_t tag = heap.front().tag;
  while (!heap.empty() && heap.front().tag == tag) {
    out.push_back(block_at(heap.front().block));
    std::ranges::pop_heap(heap, std::ranges::greater(), &Tagged::tag);
    heap.pop_back();
  }
  std::ranges::sort(out, {}, &Block::key);
}

std::size_t KeyIndex::bytes() const {
  std::size_t bytes = shards_.size() * sizeof(Shard);
  for (const Shard& shard : shards_) bytes += shard.bucket_count * sizeof(Bucket);
  return bytes;
}

}  // namespace terrace::storage
