// `terrace-bench prefill` and `terrace-bench decode`: tokens a second beside what the machine can
// do.
#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

#include "inference/model/llama.h"

namespace terrace::bench {

struct ThroughputOptions {
  std::string model_path;
  inference::ModelOptions model;
  std::size_t repetitions = 5;
  bool quick = false;
};

// Tokens a second of prompts of 128, 512, 1500 and 2048 tokens; the floor is a register-only
// multiply-add loop.
int run_prefill(const ThroughputOptions& options, std::ostream& out, std::ostream& err);

// Tokens a second of one sequence at depths 1, 512, 1200, 2048 and of eight at 512 and 2048; the
// floor is a loop that only reads as many bytes.
int run_decode(const ThroughputOptions& options, std::ostream& out, std::ostream& err);

}  // namespace terrace::bench
