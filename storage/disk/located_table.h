// Which record holds which block: an entry for every block on disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/block_key.h"
#include "core/record.h"
#include "core/space.h"
#include "storage/disk/extent.h"
#include "storage/disk/fingerprint_table.h"

namespace terrace::storage {

// Named limits of a store, so that where a record lies takes 8 bytes.
constexpr unsigned located_first_bits = 30, located_units_bits = 15, located_file_bits = 17,
                   located_codec_bits = 2;
constexpr std::uint64_t max_data_file_bytes =
    (std::uint64_t{1} << located_first_bits) * extent_unit_bytes;  // 4 TiB
constexpr std::uint32_t max_data_files = 1u << located_file_bits;
static_assert(located_first_bits + located_units_bits + located_file_bits + located_codec_bits ==
              64);

// How many units the record of so many stored bytes takes.
constexpr std::uint32_t record_units(std::uint64_t stored_bytes) {
  return static_cast<std::uint32_t>((record_header_bytes + stored_bytes + extent_unit_bytes - 1) /
                                    extent_unit_bytes);
}
static_assert(record_units(max_block_bytes) < 1u << located_units_bits);

// What the store keeps in memory of a block. How long its payload is, before and after its codec,
// is in the record's header.
struct LocatedBlock {
  Extent extent;
  Codec codec = Codec::raw;
};

// Two keys may get into each other's way, though hardly ever (fingerprint_table.h): then one of
// them is not found, or its record does not verify: a miss. One thread.
class LocatedTable {
 public:
  std::optional<LocatedBlock> find(const BlockKey& key) const;
  bool contains(const BlockKey& key) const { return table_.contains(key); }
  // Instead of what is there of the key, if anything is.
  void put(const BlockKey& key, const LocatedBlock& located);
  void erase(const BlockKey& key) { table_.erase(key); }
  // Makes room for so many at once.
  void reserve(std::size_t blocks) { table_.reserve(blocks); }

  std::size_t size() const { return table_.size(); }
  // Of memory.
  std::size_t bytes() const { return table_.bytes(); }

 private:
  FingerprintTable<8> table_;
};

}  // namespace terrace::storage
