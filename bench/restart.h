// `terrace-bench restart`: how soon the blocks on disk are known again after a clean stop, after
// kill -9, and after the index was lost, beside just reading the index.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>

namespace terrace::bench {

struct RestartOptions {
  std::size_t blocks = 1'000'000;  // of 4 KiB, each with a header of 4 KiB
  std::size_t repetitions = 5;
  std::string directory;  // where the disk tier goes; empty: a temporary folder
  bool quick = false;
};

int run_restart(const RestartOptions& options, std::ostream& out, std::ostream& err);

}  // namespace terrace::bench
