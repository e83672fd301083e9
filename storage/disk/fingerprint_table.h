// A table from keys to a few bytes each, in as little memory as a hash table takes: where every
// block on disk has an entry, each byte of one is a megabyte in a million.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/block_key.h"

namespace terrace::storage {

// An entry does not hold the key but 50 bits made of it and of a secret of the table, 10 of which
// are not stored either: they say which part of the table it is in. Two keys that agree in those
// have one entry, that of the later; nobody can bring it about, and by chance it happens once in
// two thousand tables of a million keys. So what is found must be taken for a hint that is verified
// against what it points to. One thread.
//
// Values are the low `value_bytes` bytes of a number: 1 or 8 (instantiated in the .cc).
template <std::size_t value_bytes>
class FingerprintTable {
 public:
  FingerprintTable();

  std::optional<std::uint64_t> find(const BlockKey& key) const;
  bool contains(const BlockKey& key) const { return find(key).has_value(); }
  // Instead of what is there of the key, if anything is.
  void put(const BlockKey& key, std::uint64_t value);
  // Whether there was one.
  bool erase(const BlockKey& key);
  // Makes room for so many at once.
  void reserve(std::size_t keys);

  std::size_t size() const { return size_; }
  // Of memory.
  std::size_t bytes() const;

 private:
  static constexpr std::size_t shard_bits = 10;  // growing moves one shard of the table
  static constexpr std::size_t shard_count = std::size_t{1} << shard_bits;
  static constexpr std::size_t fingerprint_bytes = 5;

  // Not aligned: nothing lies between two of them.
  struct Entry {
    std::array<std::uint8_t, fingerprint_bytes + value_bytes> bytes{};

    std::uint64_t fingerprint() const;  // 0: nothing is here
    std::uint64_t value() const;
    void set(std::uint64_t fingerprint, std::uint64_t value);
  };
  struct Shard {
    std::unique_ptr<Entry[]> entries;
    std::uint32_t capacity = 0, size = 0;
  };
  // Where a key belongs.
  struct Place {
    std::size_t shard;
    std::uint64_t fingerprint;
  };

  Place place_of(const BlockKey& key) const;
  static std::size_t home_of(const Shard& shard, std::uint64_t fingerprint);
  // The entry of the fingerprint, or a free one for it. The shard is not full.
  static std::size_t entry_for(const Shard& shard, std::uint64_t fingerprint);
  static void resize(Shard& shard, std::size_t capacity);

  std::array<std::uint64_t, 4> secret_;
  std::vector<Shard> shards_;
  std::size_t size_ = 0;
};

}  // namespace terrace::storage
