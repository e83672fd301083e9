// `terrace-bench staging`: blocks of an engine with KV memory of its own into a daemon and back,
// beside a memcpy of the same bytes.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>

namespace terrace::bench {

struct StagingBenchOptions {
  std::size_t block_kib = 720;
  std::size_t blocks = 256;  // of each prompt
  std::size_t repetitions = 7;
  std::string directory;  // where the daemon's socket goes; empty: a temporary folder
  bool quick = false;
};

int run_staging(const StagingBenchOptions& options, std::ostream& out, std::ostream& err);

}  // namespace terrace::bench
