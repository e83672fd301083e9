// Asking the tier that other hosts share what it has behind what is kept here, and believing the
// answer for a while.
#include <algorithm>

#include "storage/cache/impl.h"

namespace terrace::storage {

bool TieredCache::Impl::remote_usable() const {
  // Bytes come from there by the CPU's hand.
  return remote_ && remote_->available() && (device_.memory().host_accessible() || host_);
}

void TieredCache::Impl::look_up(SpaceId space_id, std::span<const BlockKey> keys,
                                std::span<const Token> tokens, std::int64_t deadline_ns,
                                std::function<void()> done) {
  const SpaceEntry* const space = usable_space(space_id);
  if (!space || !remote_usable() || deadline_ns <= clock_.monotonic_ns() ||
      waits_for_cut_drop(space->digest))
    return done();
  const std::size_t block_tokens = space->descriptor.block_tokens;
  keys = keys.first(std::min(keys.size(), tokens.size() / block_tokens));
  std::vector<Block*> found;
  catalog_.index().find(keys, found);
  const auto leading = [&](std::size_t from, const auto& holds) {
    while (from < found.size() && found[from] && found[from]->space == space_id &&
           holds(*found[from]))
      ++from;
    return from;
  };
  const std::size_t kept = leading(0, [](const Block& block) { return block.kept(); });
  if (leading(kept, [](const Block& block) { return block.present(); }) == keys.size())
    return done();
  // Also what is believed to be there: heads are asked for as late as tails, so that they are not
  // forgotten sooner.
  const auto rest = keys.subspan(kept, std::min(keys.size() - kept, max_keys_a_lookup));
  for (auto& [ticket, lookup] : lookups_) {
    if (lookup.of_share || lookup.space != space_id || lookup.deadline_ns > deadline_ns ||
        lookup.keys.size() < rest.size() ||
        !std::equal(rest.begin(), rest.end(), lookup.keys.begin()))
      continue;
    ++shared_lookups_;
    lookup.waiting.push_back(std::move(done));
    return;
  }
  if (lookups_.size() >= max_lookups_in_flight) return done();
  RemoteQuestion question;
  question.space = space_id;
  question.parent = kept > 0 ? keys[kept - 1] : space->digest;
  question.keys.assign(rest.begin(), rest.end());
  const auto rest_tokens = tokens.subspan(kept * block_tokens, rest.size() * block_tokens);
  question.tokens.assign(rest_tokens.begin(), rest_tokens.end());
  question.deadline_ns = deadline_ns;
  question.waiting.push_back(std::move(done));
  ask(std::move(question));
}

Ticket TieredCache::Impl::ask(RemoteQuestion question) {
  const Ticket ticket = next_ticket_++;
  RemoteLookup request;
  request.ticket = ticket;
  request.space = catalog_.space(question.space)->digest;
  request.keys = question.keys;
  request.deadline_ns = question.deadline_ns;
  lookups_.emplace(ticket, std::move(question));
  ++remote_lookups_;
  remote_->lookup(std::move(request));
  return ticket;
}

void TieredCache::Impl::finish_lookup(Ticket ticket, const RemoteCompletion& completion) {
  const auto found = lookups_.find(ticket);
  if (found == lookups_.end()) return;  // too late
  RemoteQuestion& question = found->second;
  if (question.of_share) {
    lookups_.erase(found);
    if (share_ && share_->asked == ticket) finish_share_lookup(completion);
    return;
  }
  question.present =
      completion.status.ok() ? std::min<std::size_t>(completion.present, question.keys.size()) : 0;
}

void TieredCache::Impl::continue_lookups() {
  std::size_t left = max_beliefs_a_turn;
  for (auto at = lookups_.begin(); at != lookups_.end();) {
    RemoteQuestion& question = at->second;
    if (!question.present) {
      ++at;
      continue;
    }
    left -= believe(question, left);
    if (question.believed < *question.present) {
      wake();
      return;
    }
    std::ranges::move(question.waiting, std::back_inserter(answered_lookups_));
    at = lookups_.erase(at);
  }
}

std::size_t TieredCache::Impl::believe(RemoteQuestion& question, std::size_t most) {
  SpaceEntry* const space = catalog_.space(question.space);
  const std::size_t first = question.believed;
  const std::size_t end = std::min(*question.present, first + most);
  const BlockKey& above = first > 0 ? question.keys[first - 1] : question.parent;
  Block* parent = above == space->digest ? nullptr : catalog_.find(above);
  const bool reachable =
      parent ? parent->space == space->id && parent->present() : above == space->digest;
  const std::size_t block_tokens = space->descriptor.block_tokens;
  std::size_t& at = question.believed;
  for (; at < end && reachable && !space->dropping; ++at) {
    const BlockKey& key = question.keys[at];
    Block* block = catalog_.find(key);
    if (!block) {
      // A client's keys are not believed: under each lie the tokens that it is made of.
      const auto tokens =
          std::span<const Token>(question.tokens).subspan(at * block_tokens, block_tokens);
      if (derive_block_key(parent ? parent->key : space->digest, tokens) != key) break;
      block = add_block(*space, parent, key, tokens, true);
      if (!block) break;
    }
    if (block->parent != parent || block->space != space->id) break;
    if (block->redis == RedisCopy::none) set_redis(*block, RedisCopy::present);
    parent = block;
  }
  if (at < end) question.present = at;  // it ends here
  // When all is noted, tails become older than their heads.
  const std::int64_t now_ns = clock_.monotonic_ns();
  for (std::size_t i = at, from = at == *question.present ? 0 : first; i-- > from;) {
    const Block* const block = catalog_.find(question.keys[i]);
    if (block && block->in_redis() && !block->kept()) remote_only_.add(block->key, now_ns);
  }
  while (remote_only_.size() > max_remote_only_blocks)
    forget_remote(*remote_only_.take_added_by(INT64_MAX));
  return end - first;
}

void TieredCache::Impl::forget_remote(const BlockKey& key) {
  Block* const block = catalog_.find(key);
  if (block && block->in_redis() && !block->occupies_local()) set_redis(*block, RedisCopy::none);
}

void TieredCache::Impl::forget_old_remote_blocks() {
  const std::int64_t now_ns = clock_.monotonic_ns();
  for (std::size_t i = 0; i < max_forgotten_a_turn; ++i) {
    const auto key = remote_only_.take_added_by(now_ns - remote_belief_ns);
    if (!key) break;
    forget_remote(*key);
  }
  while (rechecked_.take_added_by(now_ns - share_recheck_ns)) continue;
}

void TieredCache::Impl::end_late_lookups() {
  const std::int64_t now_ns = clock_.monotonic_ns();
  for (auto at = lookups_.begin(); at != lookups_.end();) {
    if (at->second.deadline_ns > now_ns) {
      ++at;
      continue;
    }
    RemoteQuestion late = std::move(at->second);
    const Ticket ticket = at->first;
    at = lookups_.erase(at);
    ++late_lookups_;
    if (share_ && share_->asked == ticket) {
      RemoteCompletion none;
      none.status = Status(StatusCode::unavailable, "no answer in time");
      finish_share_lookup(none);
    }
    std::ranges::move(late.waiting, std::back_inserter(answered_lookups_));
  }
}

void TieredCache::Impl::tell_lookups() {
  // A callback may look up again, and be told at once.
  for (auto& done : std::exchange(answered_lookups_, {})) done();
}

std::optional<std::int64_t> TieredCache::Impl::next_deadline_ns() const {
  std::optional<std::int64_t> next = flights_.next_limit_ns();
  const auto consider = [&](std::int64_t limit_ns) {
    if (!next || limit_ns < *next) next = limit_ns;
  };
  for (const auto& [ticket, lookup] : lookups_) consider(lookup.deadline_ns);
  if (!remote_limits_.empty()) consider(remote_limits_.begin()->first);
  return next;
}

}  // namespace terrace::storage
