// Picks the next token from logits.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "core/block_key.h"
#include "core/status.h"

namespace terrace::inference {

struct SamplingOptions {
  double temperature = 0;   // 0: greedy, whatever the rest says
  std::uint32_t top_k = 0;  // only the k most likely tokens; 0: all
  double top_p = 1;         // only the most likely tokens that together reach this probability
  std::uint64_t seed = 0;

  // invalid_argument that names the option: temperature negative or no number, top_p not in (0, 1].
  Status validate() const;
};

// The id of the highest logit, the lowest id among equals. NaN counts as minus infinity; 0 if
// nothing else is there.
Token greedy_token(std::span<const float> logits);

// The order is temperature, then top-k, then top-p, as in the "Transformers" library. One seed
// gives one series of tokens, on every machine and standard library: the generator is
// mt19937_64, whose numbers the C++ standard fixes, and the mapping to [0, 1) is done here.
class Sampler {
 public:
  // `options` are valid.
  explicit Sampler(const SamplingOptions& options);

  // `logits` [vocabulary], not empty. A NaN is never picked unless there is nothing else.
  Token sample(std::span<const float> logits);

 private:
  struct Candidate {
    float logit;
    Token id;
  };

  SamplingOptions options_;
  std::mt19937_64 generator_;
  std::vector<Candidate> candidates_;  // kept for its memory
  std::vector<double> weights_;
};

}  // namespace terrace::inference
