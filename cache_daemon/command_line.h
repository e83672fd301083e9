// The command line of terraced.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "config/daemon_config.h"
#include "core/status.h"

namespace terrace::daemon {

// What to print instead of running, for --help and --version.
struct Answer {
  std::string text;
};

// The options to run with; invalid_argument in one line for what cannot be read.
Result<std::variant<config::DaemonConfig, Answer>> read_command_line(int argc, char** argv);

}  // namespace terrace::daemon
