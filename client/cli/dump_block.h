// `terrace inspect --dump`: the bytes of a block in a file.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/status.h"

namespace terrace::cli {

// Writes a file as a whole or not at all: under another name first, which is then given its own.
// Durable when it returns ok. io_error, no_space.
Status write_whole_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace terrace::cli
