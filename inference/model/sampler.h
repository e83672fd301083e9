// Picks the next token from logits.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/block_key.h"
#include "core/status.h"

namespace terrace::inference {

struct SamplingOptions {
  double temperature = 0;   // 0: greedy, whatever the rest says
  std::uint32_t top_k = 0;  // only the k most likely tokens; 0: all
  double top_p = 1;         // only the most likely tokens that together reach this probability
  double min_p = 0;         // only tokens at least so likely as this part of the most likely one
  // Taken off the logit of a token that was generated before: once, and as often as it was.
  double presence_penalty = 0, frequency_penalty = 0;
  // Divides the logit of a token of the prompt or the answer if it is positive, else multiplies it.
  double repetition_penalty = 1;
  std::vector<std::pair<Token, float>> logit_bias;  // added; ids within the vocabulary
  std::uint64_t seed = 0;

  bool changes_logits() const {
    return presence_penalty != 0 || frequency_penalty != 0 || repetition_penalty != 1 ||
           !logit_bias.empty();
  }
  // invalid_argument that names the option: temperature negative or no number, top_p not in (0, 1],
  // min_p not in [0, 1], a penalty that is no number, a repetition penalty that is not positive.
  Status validate() const;
};

// The id of the highest logit, the lowest id among equals. NaN counts as minus infinity; 0 if
// nothing else is there.
Token greedy_token(std::span<const float> logits);

// The order is bias and penalties, temperature, top-k, top-p, min-p, as in the "Transformers"
// library. One seed gives one series of tokens, on every machine and standard library: the
// generator is mt19937_64, whose numbers the C++ standard fixes, and the mapping to [0, 1) is done
// here.
class Sampler {
 public:
  // `options` are valid.
  explicit Sampler(const SamplingOptions& options);

  // What the repetition penalty counts before anything is generated. Once, before sample().
  void observe_prompt(std::span<const Token> prompt);
  // `logits` [vocabulary], not empty. A NaN is never picked unless there is nothing else.
  Token sample(std::span<const float> logits);

 private:
  struct Seen {
    bool in_prompt = false;
    std::uint32_t generated = 0;
  };
  struct Candidate {
    float logit;
    Token id;
  };

  std::span<const float> changed(std::span<const float> logits);
  Token draw(std::span<const float> logits);
  static bool more_likely(const Candidate& a, const Candidate& b);
  // Leaves weights_ to the likeliest candidates that together weigh `enough`, in their order, and
  // returns what they weigh.
  template <typename Weight>
  double keep_most_likely(double enough, Weight weight);

  SamplingOptions options_;
  std::mt19937_64 generator_;
  std::unordered_map<Token, Seen> seen_;
  std::vector<float> changed_;
  std::vector<Candidate> candidates_;  // kept for its memory
  std::vector<double> weights_;
};

}  // namespace terrace::inference
