// Files that are read whole and once, up to a limit: certificates, and what holds a secret: a
// token, a password, a private key.
#pragma once

#include <cstddef>
#include <string>

#include "core/status.h"

namespace terrace {

// More is no secret but the wrong file.
constexpr std::size_t max_secret_bytes = 4096;

// All of it. io_error if it cannot be read, failed_precondition if it is no regular file,
// invalid_argument if it has more than `max_bytes`.
Result<std::string> read_small_file(const std::string& path, std::size_t max_bytes);

// The same; failed_precondition, too, if everybody may use it. No message has anything of its
// contents.
Result<std::string> read_secret_text(const std::string& path, std::size_t max_bytes);

// Its first line, out of at most max_secret_bytes; invalid_argument if that is empty.
Result<std::string> read_secret_file(const std::string& path);

}  // namespace terrace
