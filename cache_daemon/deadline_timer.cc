#include "cache_daemon/deadline_timer.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace terrace::daemon {

void DeadlineTimer::look() {
  const auto next_ns = cache_.next_deadline_ns();
  if (!next_ns || *next_ns >= set_for_ns_) return;
  waiting_ = wait_for_next().eagerlyEvaluate([this](kj::Exception&& exception) {
    set_for_ns_ = INT64_MAX;
    spdlog::error("ending waits failed: {}", exception.getDescription().cStr());
  });
}

kj::Promise<void> DeadlineTimer::wait_for_next() {
  const auto next_ns = cache_.next_deadline_ns();
  set_for_ns_ = next_ns.value_or(INT64_MAX);
  if (!next_ns) return kj::READY_NOW;
  const std::int64_t left_ns = std::max<std::int64_t>(*next_ns - clock_.monotonic_ns(), 0);
  return timer_.afterDelay(left_ns * kj::NANOSECONDS).then([this] {
    cache_.run_deadlines();
    return wait_for_next();
  });
}

}  // namespace terrace::daemon
