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
constexpr std::size_t growth_fraction = 8;
constexpr double least_load = 3;
constexpr std::uint16_t spilled_for_good = std::numeric_limits<std::uint16_t>::max();
// How many look-ups are at the same stage: more than the processor has misses under way.
constexpr std::size_t stage_length = 24;
constexpr std::size_t half_cache_line_bytes = 32;

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

// In three stages, each stage_length behind the one before, which has asked for the memory that it
// reads: the bucket, the block that is probably meant, and whether it is.
void KeyIndex::find(std::span<const BlockKey> keys, std::vector<Block*>& out) const {
  out.resize(keys.size());
  const std::size_t size = keys.size();
  for (std::size_t turn = 0; turn < size + 2 * stage_length; ++turn) {
    if (turn < size) {
      const std::uint64_t head = head_of(keys[turn]);
      const Shard& shard = shards_[shard_of(head)];
      __builtin_prefetch(shard.buckets.get() + home_of(shard, tag_of(head)));
    }
    if (const std::size_t i = turn - stage_length; turn >= stage_length && i < size) {
      const std::uint64_t head = head_of(keys[i]);
      const Shard& shard = shards_[shard_of(head)];
      const std::uint16_t tag = tag_of(head);
      out[i] = nullptr;
      if (shard.bucket_count != 0) {
        const Bucket& bucket = shard.buckets[home_of(shard, tag)];
        if (const unsigned found = entries_with(bucket, tag); found != 0) {
          out[i] = block_at(bucket.blocks[std::countr_zero(found)]);
          __builtin_prefetch(out[i]);
          // What a match reads of a block may lie across two lines.
          __builtin_prefetch(reinterpret_cast<const std::byte*>(out[i]) + half_cache_line_bytes);
        } else if (bucket.spilled != 0) {
          out[i] = find(keys[i]);
        }
      }
    }
    if (turn >= 2 * stage_length) {
      const std::size_t i = turn - 2 * stage_length;
      if (out[i] && out[i]->key != keys[i]) out[i] = find(keys[i]);
    }
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
