// Whole texts from files and streams: prompts, ids.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>

#include "core/status.h"

namespace terrace::inference {

// Everything up to the end of `in`. io_error that names `name` if reading fails on the way.
Result<std::string> read_all(std::istream& in, std::string_view name);

// The whole file. io_error if it cannot be opened or read (a directory, say).
Result<std::string> read_file(const std::string& path);

}  // namespace terrace::inference
