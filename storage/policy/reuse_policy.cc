#include "storage/policy/reuse_policy.h"

namespace terrace::storage {

void ReusePolicy::follow_time() const {
  remembered_.advance([this](Block& block) { forgotten_.insert(block); });
}

void ReusePolicy::insert(Block& block) {
  follow_time();
  if (remembers(block))
    remembered_.insert(block);
  else
    forgotten_.insert(block);
}

void ReusePolicy::erase(Block& block) {
  follow_time();
  if (remembers(block))
    remembered_.erase(block);
  else
    forgotten_.erase(block);
}

Block* ReusePolicy::next() const {
  follow_time();
  if (Block* block = forgotten_.next()) return block;
  return tracker_.prefers_recency(tier_) ? remembered_.oldest() : remembered_.lowest();
}

bool ReusePolicy::before(const Block& a, const Block& b) const {
  const bool knows_a = remembers(a), knows_b = remembers(b);
  if (knows_a != knows_b) return knows_b;
  if (!knows_a) return forgotten_.before(a, b);
  const ReuseModel& model = tracker_.model();
  if (!tracker_.prefers_recency(tier_)) {
    const std::uint16_t rank_a = model.index().rank(model.cell(reuse_state(a)));
    const std::uint16_t rank_b = model.index().rank(model.cell(reuse_state(b)));
    if (rank_a != rank_b) return rank_a < rank_b;
  }
  const std::uint32_t age_a = model.age(a.policy_time), age_b = model.age(b.policy_time);
  if (age_a != age_b) return age_a > age_b;
  return a.depth != b.depth ? a.depth > b.depth : a.key < b.key;
}

}  // namespace terrace::storage
