// The manual page terrace(1).
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "client/cli/generate/command_tree.h"

namespace terrace::cli {

// In roff. `version`: of the program.
void print_manual(const std::vector<Command>& commands, const std::string& version,
                  std::ostream& out);

}  // namespace terrace::cli
