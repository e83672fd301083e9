// `terrace-bench load`: many clients that match, acquire, reserve, seal and release at once, beside
// the same clients with bare pings of the same sizes, and beside one client that does not read.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>

namespace terrace::bench {

struct LoadOptions {
  std::size_t clients = 200;
  std::size_t duration_s = 15;  // of all that is measured
  std::string directory;        // where the daemon's files go; empty: a temporary folder
  bool disk = false;            // with a disk tier, which is written to behind what is sealed
  bool quick = false;
};

// 1 if anything went wrong: a call that failed, or bytes that were not those of the block.
int run_load(const LoadOptions& options, std::ostream& out, std::ostream& err);

}  // namespace terrace::bench
