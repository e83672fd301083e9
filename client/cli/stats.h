// `terrace stats`: what the daemon says of itself, for people.
#pragma once

#include <iosfwd>
#include <string>

#include "core/status.h"

namespace terrace::cli {

// A table of the daemon's JSON object. internal if it is none. What it lacks is left out; what this
// program does not know is not shown.
Status print_stats(const std::string& stats_json, std::ostream& out);

// The object as it came, in one line. internal if it is none.
Status print_stats_json(const std::string& stats_json, std::ostream& out);

}  // namespace terrace::cli
