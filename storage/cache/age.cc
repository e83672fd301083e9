// A maximum age for the blocks of a space: who is older is a miss at once, and is erased from every
// tier in the turns that follow.
#include <algorithm>

#include "storage/cache/impl.h"

namespace terrace::storage {

namespace {

bool names_space(const std::string& name, const SpaceEntry& space) {
  return name == space.descriptor.label ||
         (name.size() >= min_digest_digits && space.digest.hex().starts_with(name));
}

}  // namespace

void TieredCache::Impl::set_max_ages(std::vector<SpaceAge> ages) {
  options_.max_ages = std::move(ages);
  for (const auto& space : catalog_.spaces()) apply_max_age(*space);
  next_age_pass_ns_ = 0;  // what is too old now is to go at once
}

void TieredCache::Impl::apply_max_age(SpaceEntry& space) {
  space.max_age_ms = 0;
  bool named = false;
  for (const SpaceAge& age : options_.max_ages) {
    if (names_space(age.name, space)) {
      // Of several that name it the shortest: it is a promise.
      const bool shorter =
          age.max_age_ms != 0 && (space.max_age_ms == 0 || age.max_age_ms < space.max_age_ms);
      if (!named || shorter) space.max_age_ms = age.max_age_ms;
      named = true;
    } else if (age.name == "*" && !named) {
      space.max_age_ms = age.max_age_ms;
    }
  }
  some_space_ages_ = some_space_ages_ || space.max_age_ms != 0;
}

std::int64_t TieredCache::Impl::oldest_created(const SpaceEntry& space) const {
  if (space.max_age_ms == 0) return 0;
  const std::int64_t limit_ms = clock_.unix_ms() - space.max_age_ms;
  return limit_ms < 0 ? 0 : std::int64_t{age_unit_of(limit_ms)} + 1;
}

void TieredCache::Impl::erase_expired(std::span<const BlockKey> keys) {
  std::map<SpaceId, std::vector<BlockKey>> in_redis;
  for (const BlockKey& key : keys) {
    Block* const block = catalog_.find(key);
    if (!block) continue;
    const bool was_there = block->present();
    // Of Redis what is believed to be there. All else goes by its own time to live, and may be what
    // another host has written anew.
    if (remote_ && block->in_redis() && !is_fetching(*block)) in_redis[block->space].push_back(key);
    strip(*block, MissReason::expired);
    const Block* const left = catalog_.find(key);
    if (was_there && !(left && left->present())) ++expired_blocks_;
  }
  for (const auto& [space, theirs] : in_redis)
    remote_->erase(catalog_.space(space)->digest, theirs);
}

void TieredCache::Impl::erase_expired_blocks() {
  const std::int64_t now_ns = clock_.monotonic_ns();
  if (!some_space_ages_ || now_ns < next_age_pass_ns_) return;
  std::vector<std::int64_t> oldest;  // by space: the clock is read once each
  for (const auto& space : catalog_.spaces()) oldest.push_back(oldest_created(*space));
  std::vector<BlockKey> keys;
  std::size_t looks = 0;
  bool at_end = true;
  catalog_.index().visit_from(age_cursor_, [&](const Block& block) {
    if (looks++ == max_age_looks_a_turn || keys.size() == max_expired_a_turn) {
      age_cursor_ = block.key;
      at_end = false;
      return false;
    }
    if (block.occupies_anything() && block.created < oldest[block.space]) keys.push_back(block.key);
    return true;
  });
  erase_expired(keys);
  if (!at_end) return;
  // What was at work is erased by the next pass.
  age_cursor_ = {};
  next_age_pass_ns_ = now_ns + age_pass_pause_ns;
}

}  // namespace terrace::storage
