// `terrace verify` of a running daemon.
#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "client/operator.h"
#include "core/status.h"

namespace terrace::cli {

struct VerifyOptions {
  bool remove = false;  // what does not verify
  // Of the time, for reading: the rest of it the disk is left to the workers.
  double share = 0.25;
};

struct BadCopy {
  std::string key, space, tier, place, reason;
  bool removed = false;
};

struct VerifyReport {
  std::uint64_t blocks = 0, bytes = 0;
  std::array<std::uint64_t, 3> copies{};  // of device, host and disk
  std::vector<BadCopy> bad;
};

// Takes in one answer of the daemon. internal if it makes no sense.
Status add_verify_page(const std::string& json, VerifyReport& report);

// Has the daemon read everything it has on its host, a few blocks at a time, and rests between.
// `progress` (null: not shown) is a line that is written over.
Result<VerifyReport> verify_daemon(client::OperatorClient& daemon, const VerifyOptions& options,
                                   std::ostream* progress);

void print_verify_report(const VerifyReport& report, std::ostream& out);
void print_verify_report_json(const VerifyReport& report, std::ostream& out);

}  // namespace terrace::cli
