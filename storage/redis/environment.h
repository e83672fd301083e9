// What the connections of a RedisStore share. Everything in it belongs to its thread, but for what
// is atomic.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "core/clock.h"
#include "storage/redis/counters.h"
#include "storage/redis/redis_options.h"
#include "storage/redis/stream.h"
#include "storage/redis/value_reader.h"

namespace terrace::storage::redis {

struct Environment {
  const RedisOptions options;
  const std::shared_ptr<const Clock> clock;
  const std::unique_ptr<TlsContext> tls;  // null: plain TCP
  const int epoll_fd;
  Counters counters;
  std::vector<std::byte> scratch = std::vector<std::byte>(transfer_part_bytes);

  std::int64_t now_ns() const { return clock->monotonic_ns(); }
};

constexpr std::int64_t ns_a_ms = 1'000'000;
constexpr std::int64_t no_time_ns = std::numeric_limits<std::int64_t>::max();

}  // namespace terrace::storage::redis
