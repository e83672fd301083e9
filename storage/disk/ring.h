// Reads, writes and syncs that run beside each other: a seam over io_uring, or over a pool of
// threads where io_uring is not there or forbidden (containers).
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/status.h"

namespace terrace::storage {

enum class RingKind { automatic, io_uring, threads };

struct RingOperation {
  enum class Kind { read, write, sync };  // sync: fdatasync
  Kind kind = Kind::read;
  int fd = -1;
  std::uint64_t offset = 0;
  std::span<const iovec> iovecs;  // they and their memory stay until the completion
  std::uint64_t tag = 0;          // given back with the completion
};

struct RingCompletion {
  std::uint64_t tag = 0;
  std::int64_t result = 0;  // bytes (maybe fewer than asked for), 0 for a sync, or -errno
};

// Operations complete in any order. One thread submits and waits; destroying the ring while
// operations are under way is a bug of the caller.
class Ring {
 public:
  virtual ~Ring() = default;

  virtual std::string_view name() const = 0;

  // At most the `depth` it was made with may be under way. Never fails: an operation that cannot be
  // started completes with -errno.
  virtual void submit(const RingOperation& operation) = 0;

  // Appends the completions that have arrived to `out`. Returns when there is one, after wake(), or
  // after `timeout_ns` (absent: never); at once if wake() came before.
  virtual void wait(std::vector<RingCompletion>& out, std::optional<std::int64_t> timeout_ns) = 0;

  // Makes wait() return. Any thread.
  virtual void wake() = 0;
};

// `automatic` takes io_uring where the kernel gives it, threads else. unavailable if io_uring was
// asked for and cannot be had.
Result<std::unique_ptr<Ring>> make_ring(RingKind kind, unsigned depth);

// The two implementations.
Result<std::unique_ptr<Ring>> make_io_uring_ring(unsigned depth);
std::unique_ptr<Ring> make_thread_ring(unsigned depth);

}  // namespace terrace::storage
