// Has the cache end its waits in time: ticks are too far apart for that.
#pragma once

#include <kj/async.h>
#include <kj/timer.h>

#include <cstdint>

#include "core/clock.h"
#include "storage/tiered_cache.h"

namespace terrace::daemon {

// Lives on the event loop. `clock` is the cache's.
class DeadlineTimer {
 public:
  DeadlineTimer(kj::Timer& timer, storage::TieredCache& cache, const Clock& clock)
      : timer_(timer), cache_(cache), clock_(clock) {}
  KJ_DISALLOW_COPY(DeadlineTimer);

  // To be called when the cache may have a new deadline.
  void look();

 private:
  kj::Promise<void> wait_for_next();

  kj::Timer& timer_;
  storage::TieredCache& cache_;
  const Clock& clock_;
  std::int64_t set_for_ns_ = INT64_MAX;
  kj::Promise<void> waiting_ = kj::READY_NOW;
};

}  // namespace terrace::daemon
