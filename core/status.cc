#include "core/status.h"

#include <cerrno>
#include <system_error>

namespace terrace {

std::string_view to_string(StatusCode code) {
  switch (code) {
    case StatusCode::ok:
      return "ok";
    case StatusCode::invalid_argument:
      return "invalid_argument";
    case StatusCode::not_found:
      return "not_found";
    case StatusCode::already_exists:
      return "already_exists";
    case StatusCode::corruption:
      return "corruption";
    case StatusCode::io_error:
      return "io_error";
    case StatusCode::no_space:
      return "no_space";
    case StatusCode::unavailable:
      return "unavailable";
    case StatusCode::deadline_exceeded:
      return "deadline_exceeded";
    case StatusCode::resource_exhausted:
      return "resource_exhausted";
    case StatusCode::failed_precondition:
      return "failed_precondition";
    case StatusCode::unimplemented:
      return "unimplemented";
    case StatusCode::internal:
      return "internal";
  }
  return "unknown";
}

std::string Status::to_string() const {
  if (ok()) return "ok";
  return std::string(terrace::to_string(code_)) + ": " + message_;
}

Status Status::with_context(std::string_view context) const {
  if (ok()) return *this;
  return Status(code_, std::string(context) + ": " + message_);
}

Status errno_status(int error_number, std::string_view what) {
  const bool full = error_number == ENOSPC || error_number == EDQUOT;
  return Status(full ? StatusCode::no_space : StatusCode::io_error,
                std::string(what) + ": " + std::generic_category().message(error_number));
}

}  // namespace terrace
