// How the cache did in the last hour, for whoever opens the page now.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <string>

#include "cache_daemon/context.h"

namespace terrace::daemon {

class History {
 public:
  // Notes how it is now, unless that was done less than history_interval ago. Call now and then.
  void look(const Context& context);

  // A JSON object; docs/metrics.md lists its fields.
  std::string json() const;

 private:
  struct Sample {
    std::int64_t unix_ms = 0;
    std::uint64_t hits = 0, misses = 0;  // since the start
    std::array<std::uint64_t, 3> used_bytes{};
  };
  std::deque<Sample> samples_;
  std::chrono::steady_clock::time_point next_{};
};

}  // namespace terrace::daemon
