// What is wrong with a command line, in one line.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace terrace::cli {

// For what parsing `app` threw: of an unknown verb or option, the one that may have been meant.
std::string usage_problem(const CLI::App& app, const CLI::ParseError& problem);

}  // namespace terrace::cli
