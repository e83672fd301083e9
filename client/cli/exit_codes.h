// What terrace's exit status means: one table, that --help and the manual print.
#pragma once

#include <array>

#include "core/status.h"

namespace terrace::cli {

constexpr int exit_done = 0;
constexpr int exit_failure = 1;
constexpr int exit_usage = 2;
constexpr int exit_no_daemon = 3;
constexpr int exit_not_found = 4;

struct ExitCode {
  int value;
  const char* meaning;
};

inline constexpr std::array exit_codes = {
    ExitCode{exit_done, "done; doctor: there is no problem"},
    ExitCode{exit_failure,
             "it could not be done, or somebody said no; config check, doctor and verify: "
             "there is a problem"},
    ExitCode{exit_usage,
             "the command line is not understood, or lacks something such as --yes: nothing was "
             "done"},
    ExitCode{exit_no_daemon, "no daemon answers at the socket, or not in time"},
    ExitCode{exit_not_found, "there is no such block, space, session or pin"},
};

constexpr int exit_code_of(StatusCode code) {
  switch (code) {
    case StatusCode::ok:
      return exit_done;
    case StatusCode::invalid_argument:
      return exit_usage;
    case StatusCode::unavailable:
    case StatusCode::deadline_exceeded:
      return exit_no_daemon;
    case StatusCode::not_found:
      return exit_not_found;
    default:
      return exit_failure;
  }
}

}  // namespace terrace::cli
