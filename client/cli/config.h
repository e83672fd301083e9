// The verbs that look at the daemon's configuration: `terrace config check` and `config show`.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "config/daemon_config.h"
#include "core/status.h"

namespace terrace::cli {

struct ConfigSource {
  std::optional<std::string> file;    // as terraced's --config
  std::vector<std::string> settings;  // as terraced's --set, in their order
};

// The configuration, as terraced would read it. Errors as its.
Result<config::DaemonConfig> load_config(const ConfigSource& source,
                                         std::vector<config::Setting>* settings = nullptr);

// Prints that the configuration is good, or returns what is wrong with it: all of it, as terraced
// would say it. As JSON, what is wrong is printed, too. failed_precondition for mistakes in it.
Status check_config(const ConfigSource& source, bool json, std::ostream& out);
// Prints what every option is in the end, as a file for terraced with a comment where it is not the
// default, or as JSON, with the values as JSON's. Secrets are not shown.
Status show_config(const ConfigSource& source, bool json, std::ostream& out);

}  // namespace terrace::cli
