// `terrace top`: how full the tiers are and what happens in them, from one look to the next.
#pragma once

#include <iosfwd>
#include <string>

#include "core/status.h"

namespace terrace::cli {

// `before` and `now`: the daemon's statistics, `seconds` apart. internal if they are none.
Status print_top(const std::string& before, const std::string& now, double seconds,
                 std::ostream& out);
// The same as one JSON object in one line.
Status print_top_json(const std::string& before, const std::string& now, double seconds,
                      std::ostream& out);

}  // namespace terrace::cli
