// `terrace-bench replay`: how much of a trace each policy of eviction finds in a cache.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace terrace::bench {

struct ReplayOptions {
  std::string trace;              // a file
  std::string synthetic;          // or the name of a made-up trace, "all" for each
  std::uint64_t seed = 1;         // of the made-up trace
  std::size_t requests = 20'000;  // and its length
  std::vector<std::string> policies{"lru", "reuse_index", "belady"};
  // Fractions of the trace's distinct blocks.
  std::vector<double> capacities{0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5};
  bool full_blocks_only = false;  // leave out blocks that are only partly filled
  bool quick = false;
};

int run_replay(const ReplayOptions& options, std::ostream& out, std::ostream& err);

}  // namespace terrace::bench
