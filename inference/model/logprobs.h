// How likely tokens were, for people who ask.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "core/block_key.h"

namespace terrace::inference {

struct TokenLogprobs {
  float logprob = 0;                         // natural logarithm, of the token that was chosen
  std::vector<std::pair<Token, float>> top;  // the most likely ones, most likely first
};

// Of the model's own distribution, before any option of sampling. `logits` [vocabulary] has
// `chosen`.
TokenLogprobs token_logprobs(std::span<const float> logits, Token chosen, std::size_t top);

}  // namespace terrace::inference
