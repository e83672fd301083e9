// Options that more than one program has.
#pragma once

#include <string>
#include <string_view>

#include "config/option_reader.h"

namespace terrace::config {

// A path that fits into a socket address, or a problem.
void read_socket_path(OptionReader& options, std::string_view key, std::string& socket_path);

}  // namespace terrace::config
