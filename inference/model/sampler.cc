#include "inference/model/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

namespace terrace::inference {

Status SamplingOptions::validate() const {
  if (!(temperature >= 0) || !std::isfinite(temperature))
    return {StatusCode::invalid_argument,
            "temperature is " + std::to_string(temperature) + ", expected 0 or more"};
  if (!(top_p > 0) || !(top_p <= 1))
    return {StatusCode::invalid_argument,
            "top_p is " + std::to_string(top_p) + ", expected more than 0 and at most 1"};
  return {};
}

Token greedy_token(std::span<const float> logits) {
  std::size_t best = 0;
  float highest = -std::numeric_limits<float>::infinity();
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] > highest) {  // false for NaN
      highest = logits[id];
      best = id;
    }
  }
  // Nothing above minus infinity: the first that is at least a number.
  if (highest == -std::numeric_limits<float>::infinity())
    while (best + 1 < logits.size() && std::isnan(logits[best])) ++best;
  return static_cast<Token>(best < logits.size() && !std::isnan(logits[best]) ? best : 0);
}

Sampler::Sampler(const SamplingOptions& options) : options_(options), generator_(options.seed) {}

Token Sampler::sample(std::span<const float> logits) {
  const Token best = greedy_token(logits);
  const double highest = logits[static_cast<std::size_t>(best)];
  // Without a finite maximum there is no distribution to draw from.
  if (options_.temperature == 0 || !std::isfinite(highest)) return best;

  candidates_.clear();
  for (std::size_t id = 0; id < logits.size(); ++id)
    if (logits[id] > -std::numeric_limits<float>::infinity())
      candidates_.push_back({logits[id], static_cast<Token>(id)});

  const auto more_likely = [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  };
  const bool cut_by_count = options_.top_k > 0 && options_.top_k < candidates_.size();
  if (cut_by_count) {
    const auto end = candidates_.begin() + options_.top_k;
    std::nth_element(candidates_.begin(), end - 1, candidates_.end(), more_likely);
    candidates_.erase(end, candidates_.end());
  }
  // An order of its own: what is drawn must not depend on how nth_element arranges equals.
  if (cut_by_count || options_.top_p < 1)
    std::sort(candidates_.begin(), candidates_.end(), more_likely);

  weights_.clear();
  double sum = 0;
  for (const Candidate& candidate : candidates_) {
    weights_.push_back(std::exp((candidate.logit - highest) / options_.temperature));
    sum += weights_.back();
  }
  if (options_.top_p < 1) {
    const double enough = options_.top_p * sum;
    std::size_t kept = 0;
    double reached = 0;
    while (kept < weights_.size() && reached < enough) reached += weights_[kept++];
    weights_.resize(std::max<std::size_t>(kept, 1));
    sum = reached;
  }

  constexpr double two_to_minus_53 = 0x1p-53;
  double target = static_cast<double>(generator_() >> 11) * two_to_minus_53 * sum;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (target < weights_[i]) return candidates_[i].id;
    target -= weights_[i];
  }
  return best;  // rounding ate the last bit of the sum
}

}  // namespace terrace::inference
