// How much memory this process may still take without pushing others out.
#pragma once

#include <cstdint>
#include <string>

#include "core/status.h"

namespace terrace {

// What the kernel says is available on the machine, or what the process's control groups (version
// 1 or 2) leave of their limits, whichever is less. Pages of files that can be dropped count as
// available. Reads a few files of /proc and /sys below `root`. io_error if the kernel says nothing.
Result<std::uint64_t> available_memory_bytes(const std::string& root = "");

}  // namespace terrace
