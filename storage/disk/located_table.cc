#include "storage/disk/located_table.h"

#include <cassert>

namespace terrace::storage {

namespace {

// From the low end: first unit, units, file, codec.
constexpr unsigned units_shift = located_first_bits;
constexpr unsigned file_shift = units_shift + located_units_bits;
constexpr unsigned codec_shift = file_shift + located_file_bits;

constexpr std::uint32_t low_bits(std::uint64_t value, unsigned bits) {
  return static_cast<std::uint32_t>(value & ((std::uint64_t{1} << bits) - 1));
}

}  // namespace

std::optional<LocatedBlock> LocatedTable::find(const BlockKey& key) const {
  const auto place = table_.find(key);
  if (!place) return std::nullopt;
  LocatedBlock located;
  located.extent.first = low_bits(*place, located_first_bits);
  located.extent.units = low_bits(*place >> units_shift, located_units_bits);
  located.extent.file = low_bits(*place >> file_shift, located_file_bits);
  located.codec = static_cast<Codec>(*place >> codec_shift);
  return located;
}

void LocatedTable::put(const BlockKey& key, const LocatedBlock& located) {
  const Extent& extent = located.extent;
  assert(extent.first < 1u << located_first_bits && extent.units < 1u << located_units_bits &&
         extent.file < max_data_files);
  assert(static_cast<std::uint64_t>(located.codec) < 1u << located_codec_bits);
  table_.put(key, extent.first | std::uint64_t{extent.units} << units_shift |
                      std::uint64_t{extent.file} << file_shift |
                      static_cast<std::uint64_t>(located.codec) << codec_shift);
}

}  // namespace terrace::storage
