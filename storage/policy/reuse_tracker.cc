#include "storage/policy/reuse_tracker.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace terrace::storage {

namespace {

// One block in so many of a prompt is remembered when it is gone, and the last one of a request:
// enough to learn from, and to recognize a prompt by.
constexpr std::uint32_t remembered_depths = 4;
// How many are remembered to each block that is known.
constexpr std::size_t ghosts_a_block = 1;

std::uint64_t short_key(const BlockKey& key) {
  std::uint64_t first;
  static_assert(sizeof key >= sizeof first);
  std::memcpy(&first, &key, sizeof first);
  return first;
}

std::uint8_t one_more(std::uint8_t uses) {
  return uses == max_uses ? uses : std::uint8_t(uses + 1);
}

void set_state(Block& block, const ReuseState& state) {
  block.policy_time = state.request;
  block.policy_uses = state.uses;
  block.policy_class = state.last;
}

}  // namespace

ReuseState reuse_state(const Block& block) {
  return {block.policy_time, static_cast<std::uint8_t>(block.policy_uses), block.policy_class != 0};
}

void ReuseTracker::miss(std::span<const BlockKey> keys, RequestNumber request) {
  // From the tail on: a block above one that is remembered was used as often at least.
  std::uint8_t uses = 0;
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    ReuseState state;
    if (const auto ghost = ghosts_.take(short_key(*key)))
      state = *ghost;
    else if (uses == 0)
      continue;
    uses = std::max(uses, state.request == request ? state.uses : one_more(state.uses));
    model_.use(state, request, uses, false);
    ghosts_.put(short_key(*key), state);
  }
  forget_excess();
}

void ReuseTracker::use(Block& block, RequestNumber request, bool last) {
  ReuseState state = reuse_state(block);
  if (state.uses == 0) {
    if (const auto ghost = ghosts_.take(short_key(block.key)))
      state = *ghost;
    else
      model_.add_new_block(request);
  } else if (state.request == request) {
    return;
  }
  if (state.request == request)
    model_.set_last(state, last);
  else
    model_.use(state, request, one_more(state.uses), last);
  set_state(block, state);
  for (const auto& guard : guards_)
    if (guard) guard->use(short_key(block.key), block.depth, state);
}

bool ReuseTracker::is_last(const Block& block, RequestNumber request) const {
  return block.policy_class != 0 && block.policy_time == request;
}

void ReuseTracker::set_not_last(Block& block) {
  ReuseState state = reuse_state(block);
  model_.set_last(state, false);
  set_state(block, state);
}

void ReuseTracker::recover(Block& block) { set_state(block, {unknown_request, 1, false}); }

void ReuseTracker::remove(const Block& block) {
  const ReuseState state = reuse_state(block);
  const bool kept = block.depth % remembered_depths == 0 || state.last;
  if (!kept || !model_.remembers(state.request)) return model_.forget(state);
  ghosts_.put(short_key(block.key), state);
  forget_excess();
}

void ReuseTracker::forget_excess() {
  while (const auto ghost = ghosts_.take_excess()) model_.forget(*ghost);
}

void ReuseTracker::set_capacity(Tier tier, std::size_t blocks, std::size_t known_blocks) {
  ghosts_.set_limit(ghosts_a_block * known_blocks);
  auto& guard = guards_[static_cast<std::size_t>(tier)];
  if (!guard) guard = std::make_unique<ReuseGuard>(model_);
  guard->set_capacity(blocks);
}

}  // namespace terrace::storage
