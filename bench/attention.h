// `terrace-bench attention`: decoding over a prefix that sequences share, in two phases and in one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <vector>

#include "inference/model/llama.h"

namespace terrace::bench {

struct AttentionOptions {
  inference::ModelOptions model;  // compute, kv, threads, isa
  std::vector<std::size_t> sequences = {1, 8, 32};
  std::vector<std::uint32_t> shared_tokens = {256, 1024, 2048, 4096};
  std::uint32_t own_tokens = 32;  // of each sequence, behind the shared ones
  std::size_t repetitions = 7;
  bool quick = false;
};

// The attention of one step of decoding through all layers of SmolLM2-135M's shape, with the
// processor's caches cold. The results of both ways are compared bit for bit.
int run_attention(const AttentionOptions& options, std::ostream& out, std::ostream& err);

}  // namespace terrace::bench
