// What a running daemon takes over of a configuration that was changed, and what has to wait for
// its next start.
#pragma once

#include <string>
#include <vector>

#include "cache_daemon/command_line.h"

namespace terrace::daemon {

struct Reload {
  std::vector<std::string> applied;        // keys, such as "log.level"
  std::vector<std::string> at_next_start;  // keys whose change needs one
};

// The rules of `wanted` with what stays as it is in `running`.
config::AccessOptions access_to_take_over(const config::DaemonConfig& running,
                                          const config::DaemonConfig& wanted);

// Makes of `running` what it may become of `wanted` and says what that was. What it could not take
// over stays as it was in `running`, and is named again the next time.
Reload take_over(Options& running, const Options& wanted);

}  // namespace terrace::daemon
