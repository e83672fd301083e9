// How long calls took, in buckets that a monitor can add up over daemons.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace terrace::daemon {

// Not thread-safe.
class LatencyHistogram {
 public:
  // Upper bounds, in nanoseconds; one more bucket takes what is longer.
  static constexpr std::array<std::int64_t, 19> bounds_ns = {
      10'000,        25'000,        50'000,         100'000,       250'000,
      500'000,       1'000'000,     2'500'000,      5'000'000,     10'000'000,
      25'000'000,    50'000'000,    100'000'000,    250'000'000,   500'000'000,
      1'000'000'000, 2'500'000'000, 10'000'000'000, 60'000'000'000};

  void observe(std::int64_t ns) {
    std::size_t bucket = 0;
    while (bucket < bounds_ns.size() && ns > bounds_ns[bucket]) ++bucket;
    ++buckets_[bucket];
    ++count_;
    sum_ns_ += static_cast<std::uint64_t>(ns);
  }

  std::uint64_t count() const { return count_; }
  std::uint64_t sum_ns() const { return sum_ns_; }
  // Of bucket `index` alone; the last is bounds_ns.size().
  std::uint64_t in_bucket(std::size_t index) const { return buckets_[index]; }

 private:
  std::array<std::uint64_t, bounds_ns.size() + 1> buckets_{};
  std::uint64_t count_ = 0, sum_ns_ = 0;
};

}  // namespace terrace::daemon
