#include "inference/model/logprobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "inference/model/sampler.h"

namespace terrace::inference {

TokenLogprobs token_logprobs(std::span<const float> logits, Token chosen, std::size_t top) {
  const double highest = logits[static_cast<std::size_t>(greedy_token(logits))];
  double sum = 0;
  for (const float logit : logits)
    if (!std::isnan(logit)) sum += std::exp(logit - highest);
  const double log_sum = highest + std::log(sum);
  const auto logprob_of = [&](Token id) {
    return static_cast<float>(logits[static_cast<std::size_t>(id)] - log_sum);
  };

  TokenLogprobs result;
  result.logprob = logprob_of(chosen);
  std::vector<Token> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::erase_if(ids, [&](Token id) { return std::isnan(logits[static_cast<std::size_t>(id)]); });
  const auto end = ids.begin() + static_cast<std::ptrdiff_t>(std::min(top, ids.size()));
  std::partial_sort(ids.begin(), end, ids.end(), [&](Token a, Token b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  });
  for (auto id = ids.begin(); id != end; ++id) result.top.emplace_back(*id, logprob_of(*id));
  return result;
}

}  // namespace terrace::inference
