// The command line of terraced.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "cache_daemon/verify_command.h"
#include "config/daemon_config.h"
#include "core/status.h"

namespace terrace::daemon {

struct Options {
  config::DaemonConfig config;
  std::optional<VerifyCommand> verify;    // instead of serving
  std::vector<config::Setting> settings;  // all of them, as config::load_daemon_config says
};

// What to print instead of running, for --help and --version.
struct Answer {
  std::string text;
};

// The options to run with; invalid_argument in one line for what cannot be read.
Result<std::variant<Options, Answer>> read_command_line(int argc, char** argv);

}  // namespace terrace::daemon
