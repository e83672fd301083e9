// `terrace-bench serve`: many requests with one prefix, as they come, with the cache and without.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "inference/model/llama.h"

namespace terrace::bench {

struct ServeOptions {
  std::string model_path;
  inference::ModelOptions model;
  std::size_t shared_tokens = 200, own_tokens = 30;  // of a prompt
  std::uint32_t output_tokens = 50;
  std::vector<double> loads = {0.71, 1.07, 1.77};  // of the capacity without the cache
  double seconds = 20;                             // that requests of one load come for
  std::size_t burst = 64;
  std::size_t capacity_requests = 32;
  std::uint64_t seed = 1;
  std::string directory;  // where the daemon's data goes; empty: a temporary folder
  bool quick = false;
};

// Requests arrive at random (a Poisson process), whether or not earlier ones are answered, at each
// load twice: with a daemon's cache, blocks shared in the process and attention in two phases, and
// with none of these. Both must give the same tokens.
int run_serve_bench(const ServeOptions& options, std::ostream& out, std::ostream& err);

}  // namespace terrace::bench
