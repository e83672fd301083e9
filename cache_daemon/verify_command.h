// `terraced verify`: reads every record of stores that no daemon has open.
#pragma once

#include "config/daemon_config.h"

namespace terrace::daemon {

struct VerifyCommand {
  bool repair = false;  // erase what does not verify, and make anew an index that is of no use
  bool yes = false;     // without a question
  bool json = false;
};

constexpr int exit_sound = 0,
              exit_problem = 1;  // something does not verify, or cannot be looked at

// Prints what it found and returns what the process exits with.
int verify_stores(const config::DaemonConfig& config, const VerifyCommand& command);

}  // namespace terrace::daemon
