#include "storage/policy/reuse_guard.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace terrace::storage {

namespace {

// Shadows have from this to twice as many blocks, where the tier has so many.
constexpr std::size_t shadow_blocks = 128;
// After so many requests an observation is worth half.
constexpr double half_life_requests = 1500;
// A change of mind takes a lead of so many standard deviations, and of this part of all uses.
constexpr double sure_deviations = 2;
constexpr double least_lead = 0.005;

// Keys are digests, but the cache's index groups them by their first bits.
std::uint64_t sample_of(std::uint64_t key) { return key * 0x9E3779B97F4A7C15ull; }

}  // namespace

void ReuseGuard::set_capacity(std::size_t blocks) {
  // The shadows follow in steps, so that a tier that fills up does not start them over each time.
  if (blocks <= capacity_ + capacity_ / 8 && blocks + capacity_ / 8 >= capacity_) return;
  capacity_ = blocks;
  const std::size_t times = std::max<std::size_t>(1, blocks / shadow_blocks);
  // What another sample has left in the shadows goes in time, since it is not used again.
  sample_bits_ = static_cast<unsigned>(std::bit_width(times) - 1);
  by_recency_.set_capacity(blocks >> sample_bits_);
  by_index_.set_capacity(blocks >> sample_bits_);
}

void ReuseGuard::use(std::uint64_t key, std::uint32_t depth, const ReuseState& state) {
  if (request_ != model_.now()) weigh();
  if (capacity_ == 0 || (sample_bits_ > 0 && sample_of(key) >> (64 - sample_bits_) != 0)) return;
  asked_ += 1;
  lead_now_ += by_recency_.use(key, depth, state);
  lead_now_ -= by_index_.use(key, depth, state);
}

void ReuseGuard::weigh() {
  static const double fade = std::exp2(-1 / half_life_requests);
  const RequestNumber passed = model_.now() - request_;
  request_ = model_.now();
  const double faded = passed == 1 ? fade : std::pow(fade, passed);
  lead_ = (lead_ + lead_now_) * faded;
  lead_squares_ = (lead_squares_ + lead_now_ * lead_now_) * faded;
  asked_ *= faded;
  lead_now_ = 0;
  const double sure = sure_deviations * std::sqrt(lead_squares_) + least_lead * asked_;
  if (lead_ > sure) prefers_recency_ = true;
  if (lead_ < -sure) prefers_recency_ = false;
}

}  // namespace terrace::storage
