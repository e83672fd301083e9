// What the calls of workers cost: how many, how long, how many were refused.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "cache_daemon/latency_histogram.h"

namespace terrace::daemon {

enum class CallKind : std::uint8_t { match, acquire, reserve, seal, release, put, get };
constexpr std::array<CallKind, 7> all_call_kinds = {
    CallKind::match,   CallKind::acquire, CallKind::reserve, CallKind::seal,
    CallKind::release, CallKind::put,     CallKind::get};

constexpr const char* to_string(CallKind kind) {
  switch (kind) {
    case CallKind::match:
      return "match";
    case CallKind::acquire:
      return "acquire";
    case CallKind::reserve:
      return "reserve";
    case CallKind::seal:
      return "seal";
    case CallKind::release:
      return "release";
    case CallKind::put:
      return "put";
    case CallKind::get:
      return "get";
  }
  return "";
}

struct CallMetrics {
  // From when the daemon has read the call until it has its answer.
  LatencyHistogram latency;
  // Calls without an answer: an error, or the client went away.
  std::uint64_t unanswered = 0;
};

class AllCallMetrics {
 public:
  CallMetrics& operator[](CallKind kind) { return calls_[static_cast<std::size_t>(kind)]; }
  const CallMetrics& operator[](CallKind kind) const {
    return calls_[static_cast<std::size_t>(kind)];
  }

 private:
  std::array<CallMetrics, all_call_kinds.size()> calls_{};
};

// Lives as long as the call is worked on. Call answered() at its end; what ends otherwise counts as
// unanswered.
class CallTimer {
 public:
  explicit CallTimer(CallMetrics& metrics) : metrics_(&metrics) {}
  CallTimer(CallTimer&& other) noexcept
      : metrics_(std::exchange(other.metrics_, nullptr)), started_(other.started_) {}
  CallTimer& operator=(CallTimer&&) = delete;
  ~CallTimer() {
    if (metrics_) ++metrics_->unanswered;
  }

  std::chrono::nanoseconds elapsed() const { return std::chrono::steady_clock::now() - started_; }
  void answered() {
    if (CallMetrics* const metrics = std::exchange(metrics_, nullptr))
      metrics->latency.observe(elapsed().count());
  }

 private:
  CallMetrics* metrics_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace terrace::daemon
