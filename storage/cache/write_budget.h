// How many bytes write-behind may cost the disk: most blocks are used once, and each write wears
// the disk. Counted in hours and days of UTC, so that what was spent can be kept across a restart.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/bytes.h"

namespace terrace::storage {

class WriteBudget {
 public:
  // 0: no limit.
  WriteBudget(std::uint64_t hour_bytes, std::uint64_t day_bytes)
      : windows_{Window{hour_ms, hour_bytes}, Window{24 * hour_ms, day_bytes}} {}

  bool limited() const { return windows_[0].limit > 0 || windows_[1].limit > 0; }
  // Whether `bytes` more still fit into this hour and this day.
  bool allows(std::int64_t unix_ms, std::uint64_t bytes) const {
    return std::ranges::all_of(windows_, [&](const Window& window) {
      return window.limit == 0 || window.spent(unix_ms) + bytes <= window.limit;
    });
  }
  void spend(std::int64_t unix_ms, std::uint64_t bytes) {
    for (Window& window : windows_) {
      window.spent_bytes = window.spent(unix_ms) + bytes;
      window.number = unix_ms / window.length_ms;
    }
  }
  std::uint64_t spent_this_hour(std::int64_t unix_ms) const { return windows_[0].spent(unix_ms); }
  std::uint64_t spent_this_day(std::int64_t unix_ms) const { return windows_[1].spent(unix_ms); }

  // What was spent, for a DiskNote. restore() ignores what it did not make.
  std::string save() const {
    std::string text(encoded_bytes, '\0');
    for (std::size_t i = 0; i < windows_.size(); ++i) {
      store_le(text.data() + 16 * i, windows_[i].number);
      store_le(text.data() + 16 * i + 8, windows_[i].spent_bytes);
    }
    return text;
  }
  void restore(std::string_view text) {
    if (text.size() != encoded_bytes) return;
    for (std::size_t i = 0; i < windows_.size(); ++i) {
      windows_[i].number = load_le<std::int64_t>(text.data() + 16 * i);
      windows_[i].spent_bytes = load_le<std::uint64_t>(text.data() + 16 * i + 8);
    }
  }

 private:
  static constexpr std::int64_t hour_ms = 3'600'000;
  static constexpr std::size_t encoded_bytes = 32;

  struct Window {
    std::int64_t length_ms = 0;
    std::uint64_t limit = 0;
    std::int64_t number = 0;  // since 1970, of the one that was last spent in
    std::uint64_t spent_bytes = 0;
    std::uint64_t spent(std::int64_t unix_ms) const {
      return unix_ms / length_ms == number ? spent_bytes : 0;
    }
  };
  std::array<Window, 2> windows_;
};

}  // namespace terrace::storage
