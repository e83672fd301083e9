// What a RedisStore counts.
#pragma once

#include <atomic>
#include <cstdint>

namespace terrace::storage::redis {

// Read by any thread; see RemoteUsage.
struct Counters {
  std::atomic<std::uint64_t> connections = 0, in_flight_bytes = 0, found = 0, absent = 0,
                             written = 0, corrupt = 0, refused = 0, timed_out = 0, failed = 0,
                             not_asked = 0, rejected = 0, reconnects = 0, redirections = 0;
};

}  // namespace terrace::storage::redis
