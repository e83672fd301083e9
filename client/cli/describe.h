// The daemon's JSON about one block, a prompt or its sessions, for people.
#pragma once

#include <iosfwd>
#include <string>

#include "core/status.h"

namespace terrace::cli {

// Each: internal if the text is not what the daemon sends.
Status print_inspection(const std::string& json, std::ostream& out);
Status print_explanation(const std::string& json, std::ostream& out);
Status print_sessions(const std::string& json, std::ostream& out);

}  // namespace terrace::cli
