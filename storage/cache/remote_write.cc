// Giving blocks to the tier that other hosts share: a prefix at a time, its head first, and only
// what is not there already. What comes of it is never waited for.
#include <algorithm>

#include "storage/cache/impl.h"

namespace terrace::storage {

void TieredCache::Impl::queue_share(const Block& tail, bool whole) {
  if (!remote_ || draining_) return;
  if (!shares_.empty()) {
    QueuedShare& last = shares_.back();
    if (last.tail == tail.key || (tail.parent && last.tail == tail.parent->key)) {
      last.tail = tail.key;
      last.whole = last.whole || whole;
      return;
    }
  }
  if (shares_.size() >= max_queued_shares) {
    shares_.pop_front();
    ++dropped_shares_;
  }
  shares_.push_back({tail.key, whole});
}

void TieredCache::Impl::share_used(const Acquisition& used) {
  if (!remote_ || draining_ || used.slots.empty() || options_.redis_write == WritePolicy::on_evict)
    return;
  const Block& tail = *used.slots.back()->block;
  const bool missing = std::ranges::any_of(
      used.slots, [](const Slot* slot) { return slot->block->redis == RedisCopy::none; });
  // The server may have forgotten what this host believes to be there. It has just been asked of
  // what came from there.
  const std::int64_t now_ns = clock_.monotonic_ns();
  const bool recheck = now_ns >= recheck_not_before_ns_ && !rechecked_.contains(tail.key) &&
                       std::ranges::find(used.from, Tier::redis) == used.from.end();
  if (recheck) {
    recheck_not_before_ns_ = now_ns + share_recheck_pause_ns;
    rechecked_.add(tail.key, now_ns);
    if (rechecked_.size() > max_rechecked_prefixes) (void)rechecked_.take_added_by(INT64_MAX);
  }
  if (missing || recheck) queue_share(tail, recheck);
}

void TieredCache::Impl::share_ahead(const ArenaTier& arena, const Choice& choice) {
  // One prefix at a time: what is being sent is no candidate, and more would seem to be next.
  if (share_ || !shares_.empty() || remote_writes_in_flight_ > 0) return;
  const auto enough = options_.clean_fraction * static_cast<double>(slots_for(arena, choice));
  if (static_cast<double>(free_slots_for(arena, choice)) >= enough) return;
  Block* const next = candidates_.next(arena.tier(), choice, Candidate::settled);
  if (!next || next->redis != RedisCopy::none || next->share_asked) return;
  next->share_asked = true;
  queue_share(*next, false);
}

Slot* TieredCache::Impl::share_source(const Block& block) {
  if (block.in_host()) return block.host;
  return block.in_device() && device_.memory().host_accessible() ? block.device.get() : nullptr;
}

void TieredCache::Impl::pump_shares() {
  if (!remote_ || draining_ || clock_.monotonic_ns() < share_not_before_ns_ ||
      !remote_->available())
    return;
  while (share_ || begin_share()) {
    if (share_->asked != 0 || !continue_share()) return;
    share_.reset();
  }
}

// Asks for the next prefix that something of may be missing. False if there is none.
bool TieredCache::Impl::begin_share() {
  while (!shares_.empty()) {
    const QueuedShare queued = shares_.front();
    shares_.pop_front();
    const Block* const tail = catalog_.find(queued.tail);
    if (!tail || !tail->kept() || space_of(*tail).dropping ||
        waits_for_cut_drop(space_of(*tail).digest))
      continue;
    Share share{.space = tail->space, .queued = queued};
    bool missing = false;
    for (const Block* one = tail; one; one = one->parent) {
      // What is above a block that is there is there, too.
      if (!queued.whole && missing && one->redis != RedisCopy::none) break;
      missing = missing || one->redis == RedisCopy::none;
      share.keys.push_back(one->key);
    }
    if (!missing && !queued.whole) continue;
    std::ranges::reverse(share.keys);
    if (share.keys.size() > max_keys_a_share) {
      share.keys.resize(max_keys_a_share);
      shares_.push_back({queued.tail, false});  // for the rest
    }
    share_ = std::move(share);
    ask_for_share();
    return true;
  }
  return false;
}

void TieredCache::Impl::ask_for_share() {
  RemoteQuestion question;
  question.space = share_->space;
  question.keys.assign(share_->keys.begin() + static_cast<std::ptrdiff_t>(share_->known),
                       share_->keys.end());
  question.of_share = true;
  question.deadline_ns = clock_.monotonic_ns() + share_lookup_ns;
  ++share_->asks;
  share_->asked = ask(std::move(question));
}

void TieredCache::Impl::finish_share_lookup(const RemoteCompletion& completion) {
  Share& share = *share_;
  share.asked = 0;
  if (!completion.status.ok()) return put_off_shares();
  const auto learn = [&](const BlockKey& key, bool there) {
    Block* const block = catalog_.find(key);
    if (!block || block->redis == RedisCopy::writing || block->in_redis() == there) return;
    if (there && !block->kept()) return;
    set_redis(*block, there ? RedisCopy::present : RedisCopy::none);
    already_shared_ += there;
  };
  const std::size_t end =
      std::min<std::size_t>(share.known + completion.present, share.keys.size());
  const bool nothing = end == share.known;
  while (share.known < end) learn(share.keys[share.known++], true);
  if (share.known == share.keys.size()) return;
  learn(share.keys[share.known++], false);
  // An answer ends at a hole. More may be there behind it, unless that is where a hole was already.
  if (share.known < share.keys.size() && !(nothing && share.asks > 1) &&
      share.asks < max_asks_a_share)
    return ask_for_share();
  while (share.known < share.keys.size()) learn(share.keys[share.known++], false);
}

// Begins to write what is missing. True when all of it is under way, or cannot be.
bool TieredCache::Impl::continue_share() {
  Share& share = *share_;
  for (; share.next < share.keys.size(); ++share.next) {
    Block* const block = catalog_.find(share.keys[share.next]);
    if (!block || space_of(*block).dropping || expired(*block)) return true;
    if (block->redis != RedisCopy::none) continue;
    Slot* const source = share_source(*block);
    // A block behind one that is missing would be found by nobody.
    if (!source) return true;
    // One that was refused is tried alone.
    const bool busy = share_failures_ > 0
                          ? remote_writes_in_flight_ > 0
                          : remote_writes_in_flight_ >= max_remote_writes_in_flight ||
                                remote_write_bytes_in_flight_ >= max_remote_write_bytes_in_flight;
    if (busy) return false;
    start_share(*block, *source);
  }
  return true;
}

void TieredCache::Impl::start_share(Block& block, Slot& source) {
  begin_use(source);
  set_redis(block, RedisCopy::writing);
  ++remote_writes_in_flight_;
  remote_write_bytes_in_flight_ += bytes_of(source).size();
  RemoteWrite request;
  request.ticket = new_ticket({Operation::Kind::share, &block, &source, nullptr});
  request.space = space_of(block).digest;
  request.key = block.key;
  request.parent = block.parent ? block.parent->key : request.space;
  request.tokens.assign(block.tokens().begin(), block.tokens().end());
  request.payload = bytes_of(source);
  request.payload_checksum = source.checksum;
  request.created_unix_ms = latest_of_age_unit(block.created, clock_.unix_ms());
  if (const std::int64_t max_age_ms = space_of(block).max_age_ms; max_age_ms != 0)
    request.max_ttl_ms = std::max<std::int64_t>(
        1, std::int64_t{block.created} * age_unit_ms + max_age_ms - clock_.unix_ms());
  remote_->write(std::move(request));
}

void TieredCache::Impl::finish_share(const Operation& operation,
                                     const RemoteCompletion& completion) {
  Block& block = *operation.block;
  Slot& source = *operation.slot;
  --remote_writes_in_flight_;
  remote_write_bytes_in_flight_ -= bytes_of(source).size();
  const StatusCode code = completion.status.code();
  const bool good = code == StatusCode::ok;
  if (good) {
    share_failures_ = 0;
    ++counters(source.tier).demotions;
    if (source.block) source.verified = true;  // its bytes were seen to agree with the checksum
  } else if (code == StatusCode::corruption) {
    // Not the server's fault: the copy in memory is not what was sealed.
    if (source.block) quarantine(source);
  } else {
    ++counters(Tier::redis).failures;
    queue_share(block, false);
    put_off_shares();
  }
  end_use(source);
  // Without a copy here it would be forgotten at once. The end of the block then.
  set_redis(block, good && block.kept() ? RedisCopy::present : RedisCopy::none);
}

void TieredCache::Impl::put_off_shares() {
  if (share_ && !draining_) shares_.push_front(share_->queued);
  share_.reset();
  const std::int64_t now_ns = clock_.monotonic_ns();
  if (now_ns < share_not_before_ns_) return;  // what was under way together fails together
  const std::int64_t wait_ns =
      std::min(first_retry_ns << std::min<std::uint32_t>(share_failures_++, 16), longest_retry_ns);
  share_not_before_ns_ = now_ns + wait_ns;
}

}  // namespace terrace::storage
