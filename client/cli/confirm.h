// Asking before something is gone.
#pragma once

#include <string>

#include "core/status.h"

namespace terrace::cli {

// ok with `yes`, or if a person at the terminal says so; failed_precondition if the person does
// not, invalid_argument where nobody can be asked.
Status confirm(const std::string& question, bool yes);

}  // namespace terrace::cli
