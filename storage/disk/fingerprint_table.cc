#include "storage/disk/fingerprint_table.h"

#include <algorithm>
#include <random>

#include "core/bytes.h"

namespace terrace::storage {

namespace {

__extension__ typedef unsigned __int128 Product;

// A shard grows when it is fuller than this, and shrinks when it is emptier than that. So full,
// a key that is not there costs about eighty entries: the next thousand bytes.
constexpr double most_load = 0.92, least_load = 0.4;
constexpr std::size_t growth_fraction = 16;
constexpr std::size_t least_capacity = 8;
constexpr unsigned fingerprint_bits = 40;

std::uint64_t fold(std::uint64_t a, std::uint64_t b) {
  const Product product = Product{a} * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

template <std::size_t count>
std::uint64_t load_low(const std::uint8_t* from) {
  static_assert(count == 1 || count == 5 || count == 8);
  if constexpr (count == 8) return load_le<std::uint64_t>(from);
  if constexpr (count == 5) return load_le<std::uint32_t>(from) | std::uint64_t{from[4]} << 32;
  return *from;
}

template <std::size_t count>
void store_low(std::uint8_t* to, std::uint64_t value) {
  if constexpr (count == 8) return store_le(to, value);
  if constexpr (count == 5) store_le(to, static_cast<std::uint32_t>(value));
  to[count - 1] = static_cast<std::uint8_t>(value >> (8 * (count - 1)));
}

}  // namespace

template <std::size_t value_bytes>
std::uint64_t FingerprintTable<value_bytes>::Entry::fingerprint() const {
  return load_low<fingerprint_bytes>(bytes.data());
}

template <std::size_t value_bytes>
std::uint64_t FingerprintTable<value_bytes>::Entry::value() const {
  return load_low<value_bytes>(bytes.data() + fingerprint_bytes);
}

template <std::size_t value_bytes>
void FingerprintTable<value_bytes>::Entry::set(std::uint64_t fingerprint, std::uint64_t value) {
  store_low<fingerprint_bytes>(bytes.data(), fingerprint);
  store_low<value_bytes>(bytes.data() + fingerprint_bytes, value);
}

template <std::size_t value_bytes>
FingerprintTable<value_bytes>::FingerprintTable() : shards_(shard_count) {
  std::random_device random;
  for (std::uint64_t& word : secret_) word = std::uint64_t{random()} << 32 | random();
}

template <std::size_t value_bytes>
typename FingerprintTable<value_bytes>::Place FingerprintTable<value_bytes>::place_of(
    const BlockKey& key) const {
  const auto word = [&](std::size_t i) {
    return load_le<std::uint64_t>(key.bytes.data() + 8 * i) ^ secret_[i];
  };
  const std::uint64_t mixed =
      fold(fold(word(0), word(1)) ^ secret_[2], fold(word(2), word(3)) ^ secret_[0]);
  const std::uint64_t fingerprint = mixed & ((std::uint64_t{1} << fingerprint_bits) - 1);
  return {static_cast<std::size_t>(mixed >> (64 - shard_bits)), fingerprint == 0 ? 1 : fingerprint};
}

template <std::size_t value_bytes>
std::size_t FingerprintTable<value_bytes>::home_of(const Shard& shard, std::uint64_t fingerprint) {
  return (fingerprint & UINT32_MAX) * shard.capacity >> 32;
}

template <std::size_t value_bytes>
std::size_t FingerprintTable<value_bytes>::entry_for(const Shard& shard,
                                                     std::uint64_t fingerprint) {
  for (std::size_t at = home_of(shard, fingerprint);; at = at + 1 == shard.capacity ? 0 : at + 1) {
    const std::uint64_t there = shard.entries[at].fingerprint();
    if (there == 0 || there == fingerprint) return at;
  }
}

template <std::size_t value_bytes>
void FingerprintTable<value_bytes>::resize(Shard& shard, std::size_t capacity) {
  Shard made;
  if (capacity > 0) made.entries = std::make_unique<Entry[]>(capacity);
  made.capacity = static_cast<std::uint32_t>(capacity);
  made.size = shard.size;
  for (std::size_t at = 0; at < shard.capacity; ++at) {
    const Entry& entry = shard.entries[at];
    if (const std::uint64_t fingerprint = entry.fingerprint(); fingerprint != 0)
      made.entries[entry_for(made, fingerprint)] = entry;
  }
  shard = std::move(made);
}

template <std::size_t value_bytes>
std::optional<std::uint64_t> FingerprintTable<value_bytes>::find(const BlockKey& key) const {
  const Place place = place_of(key);
  const Shard& shard = shards_[place.shard];
  if (shard.capacity == 0) return std::nullopt;
  const Entry& entry = shard.entries[entry_for(shard, place.fingerprint)];
  if (entry.fingerprint() == 0) return std::nullopt;
  return entry.value();
}

template <std::size_t value_bytes>
void FingerprintTable<value_bytes>::put(const BlockKey& key, std::uint64_t value) {
  const Place place = place_of(key);
  Shard& shard = shards_[place.shard];
  // At least one place stays free: it ends a search.
  if (shard.size + 1 > most_load * shard.capacity)
    resize(shard, shard.capacity + std::max(least_capacity, shard.capacity / growth_fraction));
  Entry& entry = shard.entries[entry_for(shard, place.fingerprint)];
  if (entry.fingerprint() == 0) {
    ++shard.size;
    ++size_;
  }
  entry.set(place.fingerprint, value);
}

template <std::size_t value_bytes>
bool FingerprintTable<value_bytes>::erase(const BlockKey& key) {
  const Place place = place_of(key);
  Shard& shard = shards_[place.shard];
  if (shard.capacity == 0) return false;
  std::size_t hole = entry_for(shard, place.fingerprint);
  if (shard.entries[hole].fingerprint() == 0) return false;
  // What lies behind it moves up, unless it is at home there.
  for (std::size_t at = hole;;) {
    at = at + 1 == shard.capacity ? 0 : at + 1;
    const Entry& next = shard.entries[at];
    if (next.fingerprint() == 0) break;
    const std::size_t home = home_of(shard, next.fingerprint());
    const std::size_t from_home = (at + shard.capacity - home) % shard.capacity;
    const std::size_t from_hole = (at + shard.capacity - hole) % shard.capacity;
    if (from_home < from_hole) continue;
    shard.entries[hole] = next;
    hole = at;
  }
  shard.entries[hole] = {};
  --size_;
  --shard.size;
  if (shard.size == 0)
    resize(shard, 0);
  else if (shard.capacity > least_capacity && shard.size < least_load * shard.capacity)
    resize(shard, std::max(least_capacity, static_cast<std::size_t>(shard.size / most_load) + 1 +
                                               shard.capacity / growth_fraction));
  return true;
}

template <std::size_t value_bytes>
void FingerprintTable<value_bytes>::reserve(std::size_t keys) {
  // Keys do not spread quite evenly: what a shard lacks it grows by.
  const auto each = static_cast<std::size_t>(static_cast<double>(keys) /
                                             (most_load * static_cast<double>(shard_count))) +
                    1;
  for (Shard& shard : shards_)
    if (shard.capacity < each) resize(shard, std::max(least_capacity, each));
}

template <std::size_t value_bytes>
std::size_t FingerprintTable<value_bytes>::bytes() const {
  std::size_t bytes = shards_.size() * sizeof(Shard);
  for (const Shard& shard : shards_) bytes += shard.capacity * sizeof(Entry);
  return bytes;
}

template class FingerprintTable<1>;
template class FingerprintTable<8>;

}  // namespace terrace::storage
