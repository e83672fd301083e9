// Scripts that complete terrace's command line in a shell.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "client/cli/generate/command_tree.h"

namespace terrace::cli {

void print_bash_completion(const std::vector<Command>& commands, std::ostream& out);
void print_zsh_completion(const std::vector<Command>& commands, std::ostream& out);
void print_fish_completion(const std::vector<Command>& commands, std::ostream& out);

}  // namespace terrace::cli
