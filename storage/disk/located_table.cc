#include "storage/disk/located_table.h"

#include <algorithm>
#include <cassert>
#include <random>

#include "core/bytes.h"
#include "core/space.h"

namespace terrace::storage {

namespace {

__extension__ typedef unsigned __int128 Wide;

// A shard grows when it is fuller than this, and shrinks when it is emptier than that.
constexpr double most_load = 0.85, least_load = 0.4;
constexpr std::size_t growth_fraction = 8;
constexpr std::size_t least_capacity = 8;

constexpr unsigned file_bits = 29, codec_bits = 3, length_bits = 32;
static_assert(max_block_bytes < std::uint64_t{1} << length_bits);

std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
  const Wide product = Wide{a} * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

std::uint32_t units_of(std::uint64_t stored_bytes) {
  return static_cast<std::uint32_t>(
      (record_header_bytes + round_up(stored_bytes, extent_unit_bytes)) / extent_unit_bytes);
}

}  // namespace

LocatedTable::LocatedTable() : shards_(shard_count) {
  std::random_device random;
  for (std::uint64_t& word : secret_) word = std::uint64_t{random()} << 32 | random();
}

std::uint64_t LocatedTable::fingerprint_of(const BlockKey& key) const {
  const auto word = [&](std::size_t i) {
    return load_le<std::uint64_t>(key.bytes.data() + 8 * i) ^ secret_[i];
  };
  const std::uint64_t mixed =
      fold(fold(word(0), word(1)) ^ secret_[2], fold(word(2), word(3)) ^ secret_[0]);
  return mixed == 0 ? 1 : mixed;
}

const LocatedTable::Entry* LocatedTable::entry_of(std::uint64_t fingerprint) const {
  const Shard& shard = shards_[shard_of(fingerprint)];
  if (shard.capacity == 0) return nullptr;
  for (std::size_t at = home_of(shard, fingerprint); shard.entries[at].fingerprint != 0;
       at = at + 1 == shard.capacity ? 0 : at + 1)
    if (shard.entries[at].fingerprint == fingerprint) return &shard.entries[at];
  return nullptr;
}

// The entry of the fingerprint, or a free one for it. The shard is not full.
LocatedTable::Entry& LocatedTable::place_for(Shard& shard, std::uint64_t fingerprint) {
  std::size_t at = home_of(shard, fingerprint);
  while (shard.entries[at].fingerprint != 0 && shard.entries[at].fingerprint != fingerprint)
    at = at + 1 == shard.capacity ? 0 : at + 1;
  return shard.entries[at];
}

void LocatedTable::resize(Shard& shard, std::size_t capacity) {
  Shard made;
  made.entries = std::make_unique<Entry[]>(capacity);
  made.capacity = static_cast<std::uint32_t>(capacity);
  made.size = shard.size;
  for (std::size_t at = 0; at < shard.capacity; ++at)
    if (const Entry& entry = shard.entries[at]; entry.fingerprint != 0)
      place_for(made, entry.fingerprint) = entry;
  shard = std::move(made);
}

std::optional<LocatedBlock> LocatedTable::find(const BlockKey& key) const {
  const Entry* const entry = entry_of(fingerprint_of(key));
  if (!entry) return std::nullopt;
  LocatedBlock located;
  located.extent.first = static_cast<std::uint32_t>(entry->place);
  located.extent.file = static_cast<std::uint32_t>(entry->place >> 32 & ((1u << file_bits) - 1));
  located.codec = static_cast<Codec>(entry->place >> (64 - codec_bits));
  located.payload_bytes = static_cast<std::uint32_t>(entry->lengths);
  located.stored_bytes = static_cast<std::uint32_t>(entry->lengths >> length_bits);
  located.extent.units = units_of(located.stored_bytes);
  return located;
}

void LocatedTable::put(const BlockKey& key, const LocatedBlock& located) {
  assert(located.extent.units == units_of(located.stored_bytes));
  assert(located.extent.file < 1u << file_bits);
  assert(static_cast<std::uint64_t>(located.codec) < 1u << codec_bits);
  const std::uint64_t fingerprint = fingerprint_of(key);
  Shard& shard = shards_[shard_of(fingerprint)];
  if (shard.size + 1 > most_load * shard.capacity)
    resize(shard, shard.capacity + std::max(least_capacity, shard.capacity / growth_fraction));
  Entry& entry = place_for(shard, fingerprint);
  if (entry.fingerprint == 0) {
    ++shard.size;
    ++size_;
  }
  entry.fingerprint = fingerprint;
  entry.place = located.extent.first | std::uint64_t{located.extent.file} << 32 |
                static_cast<std::uint64_t>(located.codec) << (64 - codec_bits);
  entry.lengths = located.payload_bytes | std::uint64_t{located.stored_bytes} << length_bits;
}

void LocatedTable::erase(const BlockKey& key) {
  const std::uint64_t fingerprint = fingerprint_of(key);
  const Entry* const entry = entry_of(fingerprint);
  if (!entry) return;
  Shard& shard = shards_[shard_of(fingerprint)];
  // What lies behind it moves up, unless it is at home there.
  std::size_t hole = static_cast<std::size_t>(entry - shard.entries.get());
  for (std::size_t at = hole;;) {
    at = at + 1 == shard.capacity ? 0 : at + 1;
    const Entry& next = shard.entries[at];
    if (next.fingerprint == 0) break;
    const std::size_t home = home_of(shard, next.fingerprint);
    const std::size_t from_home = (at + shard.capacity - home) % shard.capacity;
    const std::size_t from_hole = (at + shard.capacity - hole) % shard.capacity;
    if (from_home < from_hole) continue;
    shard.entries[hole] = next;
    hole = at;
  }
  shard.entries[hole] = {};
  --size_;
  --shard.size;
  if (shard.capacity > least_capacity && shard.size < least_load * shard.capacity)
    resize(shard, std::max(least_capacity, static_cast<std::size_t>(shard.size / most_load) + 1 +
                                               shard.capacity / growth_fraction));
}

void LocatedTable::reserve(std::size_t blocks) {
  // Keys do not spread quite evenly.
  const auto each = static_cast<std::size_t>(
      static_cast<double>(blocks) / (most_load * shard_count) * (1 + 1.0 / growth_fraction / 2));
  for (Shard& shard : shards_)
    if (shard.capacity < each) resize(shard, each);
}

std::size_t LocatedTable::bytes() const {
  std::size_t bytes = shards_.size() * sizeof(Shard);
  for (const Shard& shard : shards_) bytes += shard.capacity * sizeof(Entry);
  return bytes;
}

}  // namespace terrace::storage
