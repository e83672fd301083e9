// `terrace-bench ttft`: the first token of a prompt of which all but a few tokens were computed
// before.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>

#include "inference/model/llama.h"

namespace terrace::bench {

struct TtftOptions {
  std::string model_path;
  inference::ModelOptions model;
  std::size_t tokens = 1500;    // of the prompt
  std::size_t fresh = 16;       // of them, never seen before
  std::size_t repetitions = 7;  // at least 5
  std::string directory;        // where the daemon's data goes; empty: a temporary folder
  bool quick = false;
};

int run_ttft(const TtftOptions& options, std::ostream& out, std::ostream& err);

}  // namespace terrace::bench
