// Time as a seam: production reads the system's clocks, tests move their own.
#pragma once

#include <cstdint>

namespace terrace {

class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds that never go back; only differences mean something.
  virtual std::int64_t monotonic_ns() const = 0;
  // Milliseconds since 1970, for what outlives the process.
  virtual std::int64_t unix_ms() const = 0;
};

// The machine's clocks. Stateless; any thread.
class SystemClock final : public Clock {
 public:
  std::int64_t monotonic_ns() const override;
  std::int64_t unix_ms() const override;
};

}  // namespace terrace
