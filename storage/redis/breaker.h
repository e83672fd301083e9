// Keeps a server that does not answer from costing every request its time-out.
//
//   closed ---- failures in a row, or one that says it all ----> open
//   open ------ after a while that doubles each time ----------> half_open: one probe
//   half_open - the probe is answered -> closed;  it fails -> open
//
// A pure class: time is handed in.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>

#include "storage/redis/remote_tier.h"

namespace terrace::storage::redis {

// Waits that double from `first` to `most`, each shortened by up to half of it at random, so that
// many clients do not come back at once.
class Backoff {
 public:
  Backoff(std::int64_t first, std::int64_t most, std::uint64_t seed)
      : first_(first), most_(most), next_(first), random_(seed) {}

  std::int64_t next() {
    const std::int64_t wait = next_;
    next_ = std::min(most_, 2 * next_);
    return wait - std::uniform_int_distribution<std::int64_t>(0, wait / 2)(random_);
  }
  void reset() { next_ = first_; }

 private:
  const std::int64_t first_, most_;
  std::int64_t next_;
  std::minstd_rand random_;
};

class CircuitBreaker {
 public:
  struct Limits {
    unsigned failures = 3;  // in a row
    std::int64_t open_ns = 0, max_open_ns = 0;
  };
  CircuitBreaker(const Limits& limits, std::uint64_t seed)
      : limits_(limits), backoff_(limits.open_ns, limits.max_open_ns, seed) {}

  Breaker state() const { return state_; }
  // Whether requests may be sent; probes are the only thing otherwise.
  bool closed() const { return state_ == Breaker::closed; }

  // The server answered. Returns whether this closed it.
  bool success() {
    failures_ = 0;
    if (state_ == Breaker::closed) return false;
    state_ = Breaker::closed;
    backoff_.reset();
    return true;
  }

  // It did not, or not in time. Returns whether this opened it, also again.
  bool failure(std::int64_t now_ns) {
    if (state_ == Breaker::open) return false;
    if (state_ == Breaker::closed && ++failures_ < limits_.failures) return false;
    return trip(now_ns);
  }

  // It said that asking again is of no use for now. Returns whether this opened it, also again.
  bool trip(std::int64_t now_ns) {
    if (state_ == Breaker::open) return false;
    state_ = Breaker::open;
    failures_ = 0;
    probe_at_ns_ = now_ns + backoff_.next();
    return true;
  }

  // When the next probe is due; only while open.
  std::int64_t probe_at_ns() const { return probe_at_ns_; }
  // Whether a probe is to be made now. Then the breaker is half open until success() or failure().
  bool begin_probe(std::int64_t now_ns) {
    if (state_ != Breaker::open || now_ns < probe_at_ns_) return false;
    state_ = Breaker::half_open;
    return true;
  }

 private:
  const Limits limits_;
  Backoff backoff_;
  Breaker state_ = Breaker::closed;
  unsigned failures_ = 0;
  std::int64_t probe_at_ns_ = 0;
};

}  // namespace terrace::storage::redis
