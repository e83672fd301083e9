// A clock that tests move.
#pragma once

#include "core/clock.h"

namespace terrace::storage {

class ManualClock final : public Clock {
 public:
  std::int64_t monotonic_ns() const override { return now_ns_; }
  std::int64_t unix_ms() const override { return 1'700'000'000'000 + now_ns_ / 1'000'000; }
  void advance_ms(std::int64_t ms) { now_ns_ += ms * 1'000'000; }

 private:
  std::int64_t now_ns_ = 1'000'000'000;
};

}  // namespace terrace::storage
