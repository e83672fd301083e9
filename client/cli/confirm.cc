#include "client/cli/confirm.h"

#include <unistd.h>

#include <iostream>

namespace terrace::cli {

Status confirm(const std::string& question, bool yes) {
  if (yes) return {};
  if (::isatty(STDIN_FILENO) == 0)
    return Status(StatusCode::invalid_argument,
                  "nothing done: say --yes to go on without a question");
  std::cerr << question << " [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "Y" || answer == "yes") return {};
  return Status(StatusCode::failed_precondition, "nothing done");
}

}  // namespace terrace::cli
