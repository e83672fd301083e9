// What a figure was measured on: printed above every table.
#pragma once

#include <iosfwd>
#include <string>

namespace terrace::bench {

// CPU, cores this process may use, kernel, build type and, for a non-empty path, its file system.
// Warns on a build without optimization or with sanitizers.
void print_environment(std::ostream& out, const std::string& path = "");

// Whether figures of this build mean anything.
bool is_debug_build();

}  // namespace terrace::bench
