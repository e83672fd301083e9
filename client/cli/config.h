// The verbs that look at the daemon's configuration: `terrace config check` and `config show`.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "core/status.h"

namespace terrace::cli {

struct ConfigSource {
  std::optional<std::string> file;    // as terraced's --config
  std::vector<std::string> settings;  // as terraced's --set, in their order
};

// Prints that the configuration is good, or returns what is wrong with it: all of it, as terraced
// would say it.
Status check_config(const ConfigSource& source, std::ostream& out);
// Prints what every option is in the end, as a file for terraced with a comment where it is not the
// default, or as JSON. Secrets are not shown.
Status show_config(const ConfigSource& source, bool json, std::ostream& out);

}  // namespace terrace::cli
