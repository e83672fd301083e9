// Files that hold a secret: a token, a private key.
#pragma once

#include <string>

#include "core/status.h"

namespace terrace {

// More is no secret but the wrong file.
constexpr std::size_t max_secret_bytes = 4096;

// Its first line. io_error if it cannot be read, failed_precondition if it is no regular file or
// everybody may read it, invalid_argument if it is too long or its first line is empty. No message
// has anything of its contents.
Result<std::string> read_secret_file(const std::string& path);

// Only the second of these: for what reads the file by other means.
Status check_secret_file(const std::string& path);

}  // namespace terrace
