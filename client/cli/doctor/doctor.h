// `terrace doctor`: looks at everything that a daemon needs, and says what to do.
#pragma once

#include <iosfwd>
#include <string>

#include "client/cli/config.h"
#include "client/cli/doctor/finding.h"

namespace terrace::cli::doctor {

struct DoctorOptions {
  ConfigSource source;
  std::string socket_path;
  bool measure_disks = true;
  std::string version;  // of this program
};

// Every check, in a fixed order. `stats`: what the daemon at the socket answered, or why not; only
// looked at where somebody listens there.
Findings examine(const DoctorOptions& options, const Result<std::string>& stats);

// A line a finding with what to do below it; or one JSON object.
void print_findings(const Findings& findings, bool json, std::ostream& out);

// ok, or failed_precondition that counts the problems (`strict`: the warnings, too).
Status verdict(const Findings& findings, bool strict);

}  // namespace terrace::cli::doctor
