// Errors as values. No exception crosses a public function of Terrace: what can fail returns a
// Status or a Result, and whoever ignores it is told by the compiler.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace terrace {

enum class StatusCode {
  ok,
  invalid_argument,     // the caller's fault; asking again will not help
  not_found,            // what was asked for is not there: a miss
  already_exists,       // somebody else has it: a socket in use, a data directory of another daemon
  corruption,           // bytes that do not verify; never retried into an answer
  io_error,             // the world failed: a disk, a socket
  no_space,             // a tier, an arena or a file system is full
  unavailable,          // the other side is not there (now)
  deadline_exceeded,    // it took longer than it may
  resource_exhausted,   // a named limit was reached
  failed_precondition,  // not in this state
  unimplemented,
  internal,  // a bug of ours
};

// The code as it appears in messages and metrics, such as "io_error".
std::string_view to_string(StatusCode code);

// An error code with a message for people, or ok. Copies share nothing; an ok Status holds no
// memory.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::ok; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // "io_error: could not read data-0: Input/output error", or "ok".
  std::string to_string() const;

  // The same error with `context` and ": " in front of its message; ok stays ok.
  Status with_context(std::string_view context) const;

 private:
  StatusCode code_ = StatusCode::ok;
  std::string message_;
};

// A value or the Status (never ok) that says why there is none.
template <typename T>
using Result = tl::expected<T, Status>;

// `return error(StatusCode::not_found, "...")` from a function that returns a Result.
inline tl::unexpected<Status> error(StatusCode code, std::string message) {
  return tl::unexpected<Status>(Status(code, std::move(message)));
}
inline tl::unexpected<Status> error(Status status) {
  return tl::unexpected<Status>(std::move(status));
}

// An io_error (no_space for ENOSPC and EDQUOT) that names what was tried and the text of
// `error_number`.
Status errno_status(int error_number, std::string_view what);

}  // namespace terrace
