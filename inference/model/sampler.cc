#include "inference/model/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

namespace terrace::inference {

bool Sampler::more_likely(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
}

Status SamplingOptions::validate() const {
  if (!(temperature >= 0) || !std::isfinite(temperature))
    return {StatusCode::invalid_argument,
            "temperature is " + std::to_string(temperature) + ", expected 0 or more"};
  if (!(top_p > 0) || !(top_p <= 1))
    return {StatusCode::invalid_argument,
            "top_p is " + std::to_string(top_p) + ", expected more than 0 and at most 1"};
  if (!(min_p >= 0) || !(min_p <= 1))
    return {StatusCode::invalid_argument,
            "min_p is " + std::to_string(min_p) + ", expected 0 to 1"};
  if (!std::isfinite(presence_penalty) || !std::isfinite(frequency_penalty))
    return {StatusCode::invalid_argument, "a penalty is no number"};
  if (!(repetition_penalty > 0) || !std::isfinite(repetition_penalty))
    return {
        StatusCode::invalid_argument,
        "repetition_penalty is " + std::to_string(repetition_penalty) + ", expected more than 0"};
  return {};
}

Token greedy_token(std::span<const float> logits) {
  constexpr float lowest = -std::numeric_limits<float>::infinity();
  // In lanes, so that it takes a fraction of a pass for a large vocabulary. A NaN is never greater.
  constexpr std::size_t lanes = 16;
  std::array<float, lanes> highest;
  highest.fill(lowest);
  std::size_t at = 0;
  for (; at + lanes <= logits.size(); at += lanes)
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const float logit = logits[at + lane];
      highest[lane] = logit > highest[lane] ? logit : highest[lane];
    }
  float top = *std::max_element(highest.begin(), highest.end());
  for (; at < logits.size(); ++at) top = logits[at] > top ? logits[at] : top;
  // The first of them; with nothing above minus infinity the first that is at least a number.
  const auto found = std::find(logits.begin(), logits.end(), top);
  return found == logits.end() ? 0 : static_cast<Token>(found - logits.begin());
}

Sampler::Sampler(const SamplingOptions& options) : options_(options), generator_(options.seed) {}

void Sampler::observe_prompt(std::span<const Token> prompt) {
  if (options_.repetition_penalty == 1) return;
  for (const Token token : prompt) seen_[token].in_prompt = true;
}

Token Sampler::sample(std::span<const float> logits) {
  if (!options_.changes_logits()) return draw(logits);
  const Token token = draw(changed(logits));
  ++seen_[token].generated;
  return token;
}

std::span<const float> Sampler::changed(std::span<const float> logits) {
  changed_.assign(logits.begin(), logits.end());
  const auto at = [&](Token id) -> float* {
    return id >= 0 && static_cast<std::size_t>(id) < changed_.size()
               ? &changed_[static_cast<std::size_t>(id)]
               : nullptr;
  };
  for (const auto& [id, bias] : options_.logit_bias)
    if (float* logit = at(id)) *logit += bias;
  for (const auto& [id, seen] : seen_) {
    float* const logit = at(id);
    if (!logit) continue;
    const auto repetition = static_cast<float>(options_.repetition_penalty);
    *logit = *logit > 0 ? *logit / repetition : *logit * repetition;
    if (seen.generated == 0) continue;
    *logit -=
        static_cast<float>(options_.presence_penalty + options_.frequency_penalty * seen.generated);
  }
  return changed_;
}

Token Sampler::draw(std::span<const float> logits) {
  const Token best = greedy_token(logits);
  const double highest = logits[static_cast<std::size_t>(best)];
  // Without a finite maximum there is no distribution to draw from.
  if (options_.temperature == 0 || !std::isfinite(highest)) return best;

  candidates_.clear();
  for (std::size_t id = 0; id < logits.size(); ++id)
    if (logits[id] > -std::numeric_limits<float>::infinity())
      candidates_.push_back({logits[id], static_cast<Token>(id)});
  const auto weight = [&](const Candidate& candidate) {
    return std::exp((candidate.logit - highest) / options_.temperature);
  };
  if (options_.top_k > 0 && options_.top_k < candidates_.size()) {
    const auto end = candidates_.begin() + options_.top_k;
    std::nth_element(candidates_.begin(), end - 1, candidates_.end(), more_likely);
    candidates_.erase(end, candidates_.end());
    // An order of its own: what is drawn must not depend on how nth_element arranges equals.
    std::sort(candidates_.begin(), candidates_.end(), more_likely);
  }
  weights_.clear();
  double sum = 0;
  for (const Candidate& candidate : candidates_) {
    weights_.push_back(weight(candidate));
    sum += weights_.back();
  }
  if (options_.top_p < 1) sum = keep_most_likely(options_.top_p * sum, weight);
  if (options_.min_p > 0) {
    sum = 0;  // the most likely one weighs 1
    for (double& each : weights_) sum += each = each < options_.min_p ? 0 : each;
  }

  constexpr double two_to_minus_53 = 0x1p-53;
  double target = static_cast<double>(generator_() >> 11) * two_to_minus_53 * sum;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (target < weights_[i]) return candidates_[i].id;
    target -= weights_[i];
  }
  return best;  // rounding ate the last bit of the sum
}

// The likeliest are few: they are sorted in growing pieces, not all of a vocabulary.
template <typename Weight>
double Sampler::keep_most_likely(double enough, Weight weight) {
  weights_.clear();
  double reached = 0;
  std::size_t kept = 0, sorted = 0;
  for (std::size_t piece = 64; kept < candidates_.size() && reached < enough; ++kept) {
    if (kept == sorted) {
      sorted = std::min(candidates_.size(), sorted + piece);
      piece *= 8;
      const auto begin = candidates_.begin() + static_cast<std::ptrdiff_t>(kept);
      const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(sorted);
      std::partial_sort(begin, end, candidates_.end(), more_likely);
    }
    weights_.push_back(weight(candidates_[kept]));
    reached += weights_.back();
  }
  return reached;
}

}  // namespace terrace::inference
