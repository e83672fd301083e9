// Which record holds which block: 24 bytes an entry, since there is one for every block on disk.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/block_key.h"
#include "core/record.h"
#include "storage/disk/extent.h"

namespace terrace::storage {

// What the store keeps in memory of a block. Its extent is as long as its header and its stored
// bytes need.
struct LocatedBlock {
  Extent extent;
  Codec codec = Codec::raw;
  std::uint32_t payload_bytes = 0;  // at most max_block_bytes
  std::uint32_t stored_bytes = 0;
};

// An entry does not hold the key but 64 bits made of it and of a secret of the table. Should two
// keys agree in those (nobody can bring it about; by chance once in a hundred thousand stores of
// ten million blocks), one of the two is not found, or its record does not verify: a miss. One
// thread.
class LocatedTable {
 public:
  LocatedTable();

  std::optional<LocatedBlock> find(const BlockKey& key) const;
  bool contains(const BlockKey& key) const { return entry_of(fingerprint_of(key)) != nullptr; }
  // Instead of what is there of the key, if anything is.
  void put(const BlockKey& key, const LocatedBlock& located);
  void erase(const BlockKey& key);
  // Makes room for so many at once.
  void reserve(std::size_t blocks);

  std::size_t size() const { return size_; }
  // Of memory.
  std::size_t bytes() const;

 private:
  static constexpr std::size_t shard_bits = 8;  // growing moves one shard of the table
  static constexpr std::size_t shard_count = std::size_t{1} << shard_bits;

  struct Entry {
    std::uint64_t fingerprint = 0;  // 0: nothing is here
    std::uint64_t place = 0;        // first unit, file, codec
    std::uint64_t lengths = 0;      // of the payload, of what is stored
  };
  struct Shard {
    std::unique_ptr<Entry[]> entries;
    std::uint32_t capacity = 0, size = 0;
  };

  std::uint64_t fingerprint_of(const BlockKey& key) const;
  static std::size_t shard_of(std::uint64_t fingerprint) {
    return fingerprint >> (64 - shard_bits);
  }
  static std::size_t home_of(const Shard& shard, std::uint64_t fingerprint) {
    return (fingerprint & UINT32_MAX) * shard.capacity >> 32;
  }
  const Entry* entry_of(std::uint64_t fingerprint) const;
  static Entry& place_for(Shard& shard, std::uint64_t fingerprint);
  static void resize(Shard& shard, std::size_t capacity);

  std::array<std::uint64_t, 4> secret_;
  std::vector<Shard> shards_;
  std::size_t size_ = 0;
};

}  // namespace terrace::storage
