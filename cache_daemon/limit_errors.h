// How a call is refused that is past a limit.
#pragma once

#include <kj/exception.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace terrace::daemon {

// Throws "limits.max_keys_per_call = 4: found 5 keys" if there are too many. `limit_name` is the
// key of an option, or what takes the place of one.
inline void require_within(std::string_view limit_name, std::uint64_t limit, std::uint64_t found,
                           std::string_view of_what) {
  if (found <= limit) return;
  const std::string text = std::string(limit_name) + " = " + std::to_string(limit) + ": found " +
                           std::to_string(found) + " " + std::string(of_what);
  kj::throwFatalException(kj::Exception(kj::Exception::Type::OVERLOADED, __FILE__, __LINE__,
                                        kj::heapString(text.c_str())));
}

}  // namespace terrace::daemon
