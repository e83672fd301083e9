// Durations of the standard library as KJ takes them.
#pragma once

#include <kj/time.h>

#include <chrono>

namespace terrace::protocol {

inline kj::Duration kj_duration(std::chrono::nanoseconds duration) {
  return duration.count() * kj::NANOSECONDS;
}

}  // namespace terrace::protocol
