// When a block was made, in units that are small enough to be kept of every block and good enough
// for a maximum age: 2^18 ms, 4 minutes and 22 seconds.
#pragma once

#include <algorithm>
#include <cstdint>

namespace terrace {

constexpr unsigned age_unit_shift = 18;
constexpr std::int64_t age_unit_ms = std::int64_t{1} << age_unit_shift;
constexpr unsigned age_bits = 24;  // they reach into the year 2109
constexpr std::uint32_t max_age_unit = (std::uint32_t{1} << age_bits) - 1;

// The unit that a time lies in. Times before 1970 and past the last unit are the nearest that there
// is.
constexpr std::uint32_t age_unit_of(std::int64_t unix_ms) {
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(unix_ms >> age_unit_shift, 0, max_age_unit));
}

// The last millisecond of a unit, or now if that is in it: a time to write down for a block, which
// gives the same unit when it is read.
constexpr std::int64_t latest_of_age_unit(std::uint32_t unit, std::int64_t now_unix_ms) {
  return std::min(now_unix_ms, (std::int64_t{unit} + 1) * age_unit_ms - 1);
}

}  // namespace terrace
