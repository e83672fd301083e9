// Where a record lies: a run of 4 KiB units in one data file.
#pragma once

#include <compare>
#include <cstdint>

namespace terrace::storage {

constexpr std::uint64_t extent_unit_bytes = 4096;

struct Extent {
  std::uint32_t file = 0;   // number of the data file
  std::uint32_t first = 0;  // its first unit
  std::uint32_t units = 0;

  std::uint64_t offset_bytes() const { return first * extent_unit_bytes; }
  std::uint64_t bytes() const { return units * extent_unit_bytes; }
  std::uint64_t end() const { return std::uint64_t{first} + units; }

  auto operator<=>(const Extent&) const = default;
};

}  // namespace terrace::storage
