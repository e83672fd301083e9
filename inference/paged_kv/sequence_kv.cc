#include "inference/paged_kv/sequence_kv.h"

#include <algorithm>
#include <utility>

namespace terrace::inference {

using Steady = std::chrono::steady_clock;

namespace {
// What is not in the device tier is asked for in pieces of this many blocks: a load that outlasts
// the budget costs its last piece, not the whole hit.
constexpr std::size_t blocks_per_load = 64;
// How often a prompt is matched anew because others computed some of it meanwhile.
constexpr std::size_t max_rounds = 8;
}  // namespace

SequenceKv::SequenceKv(const KvGeometry& geometry, client::Space* space,
                       SequenceCacheOptions options)
    : geometry_(geometry),
      space_(space),
      options_(std::move(options)),
      wait_left_(options_.single_flight_wait),
      last_key_(space ? space->digest() : options_.root) {
  if (space_) lease_ = std::make_shared<SequenceLease>(*space_);
}

client::Deadline SequenceKv::deadline() const {
  return Steady::now() + std::chrono::duration_cast<Steady::duration>(options_.budget);
}

template <typename T>
bool SequenceKv::settle(Steady::time_point begin, const Result<T>& answer) {
  options_.budget -= Steady::now() - begin;
  if (answer.has_value() && options_.budget.count() > 0) return true;
  if (options_.on_failure) {
    options_.on_failure(answer.has_value() ? Status(StatusCode::deadline_exceeded,
                                                    "the cache used up the request's budget")
                                           : answer.error());
    options_.on_failure = nullptr;
  }
  options_.budget = std::chrono::nanoseconds(0);
  return answer.has_value();
}

PrefixHit SequenceKv::start(std::span<const Token> prompt) {
  PrefixHit hit;
  if (prompt.size() < 2 || !(may_ask() || options_.shared)) return hit;
  prompt_keys_ = derive_block_keys(last_key_, prompt, geometry_.block_tokens);
  const std::size_t usable = (prompt.size() - 1) / geometry_.block_tokens;
  start_with_daemon(prompt, usable, hit);
  // Where there is none, or it did not help.
  take_shared(usable, hit);
  if (full_blocks_ > 0) last_key_ = prompt_keys_[full_blocks_ - 1];
  if (partial_) {
    hit.cached_tokens += partial_->tokens;
    hit.tokens_by_tier[static_cast<std::size_t>(partial_->from)] += partial_->tokens;
  }
  tokens_.assign(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(hit.cached_tokens));
  return hit;
}

void SequenceKv::start_with_daemon(std::span<const Token> prompt, std::size_t usable,
                                   PrefixHit& hit) {
  const std::span<const Token> reusable = prompt.first(prompt.size() - 1);
  for (std::size_t round = 0; may_ask() && round < max_rounds; ++round) {
    const auto begin = Steady::now();
    const auto match = space_->match(std::span(prompt_keys_).first(usable), reusable, deadline());
    if (!settle(begin, match)) break;
    if (!take_present(*match, usable, hit)) wait_left_ = {};  // nor does what is behind it help
    take_shared(usable, hit);
    const bool pending =
        blocks_.size() < usable && match->blocks[blocks_.size()] == BlockState::pending;
    if (pending && may_wait() && may_ask()) {
      await_others(*match, usable, hit);
      continue;  // what lies behind is another question
    }
    if (!may_reserve()) break;
    const std::size_t missing = blocks_for(prompt.size()) - blocks_.size();
    if (reserve(missing, may_wait() && blocks_.size() < usable, deadline()) == Claim::done) break;
  }
}

void SequenceKv::take_shared(std::size_t usable, PrefixHit& hit) {
  // Behind blocks to be written there is nothing to be had.
  if (!options_.shared || blocks_.size() != full_blocks_ || blocks_.size() >= usable) return;
  auto found = options_.shared->find(
      std::span(prompt_keys_).subspan(blocks_.size(), usable - blocks_.size()));
  if (found.empty()) return;
  partial_.reset();  // it was for the first of these
  for (KvBlockRef& block : found) append(std::move(block));
  full_blocks_ = blocks_.size();
  const std::size_t tokens = found.size() * geometry_.block_tokens;
  hit.cached_tokens += tokens;
  hit.tokens_by_tier[static_cast<std::size_t>(Tier::device)] += tokens;
}

bool SequenceKv::take_present(const client::Match& match, std::size_t usable, PrefixHit& hit) {
  const std::size_t present = std::max<std::size_t>(match.matched_blocks, blocks_.size());
  const bool whole_block_comes =
      present < usable && match.blocks[present] == BlockState::pending && may_wait();
  const bool partial_fits = present == match.matched_blocks && !whole_block_comes;
  std::uint32_t partial_tokens = partial_fits ? match.partial_tokens : 0;
  partial_.reset();
  std::size_t in_device = 0;
  while (in_device < present && match.blocks[in_device] == BlockState::device) ++in_device;
  while (blocks_.size() < present || partial_tokens > 0) {
    if (!may_ask()) return false;
    const std::size_t first = blocks_.size();
    const std::size_t count =
        first < in_device ? in_device - first : std::min(blocks_per_load, present - first);
    client::AcquireOptions options;
    options.prefill_tokens_per_second = options_.prefill_tokens_per_second;
    std::vector<BlockKey> keys(prompt_keys_.begin() + static_cast<std::ptrdiff_t>(first),
                               prompt_keys_.begin() + static_cast<std::ptrdiff_t>(first + count));
    // What is in the device tier does not wait for a load.
    const bool at_once = match.partial_tier == Tier::device || first >= in_device;
    if (first + count == present && at_once) {
      options.partial_tokens = std::exchange(partial_tokens, 0);
      if (options.partial_tokens > 0) keys.push_back(match.partial_key);
    }
    const auto begin = Steady::now();
    const auto acquired = space_->acquire(lease_->use(), keys, options, deadline());
    // After a failure nothing of this piece is held; the pieces before stay.
    if (!settle(begin, acquired)) return false;
    const std::size_t whole = std::min(count, acquired->size());
    take(std::span(*acquired).first(whole), hit);
    if (whole < count) return false;
    if (acquired->size() > count)
      partial_ = Partial{acquired->back().slot, options.partial_tokens, acquired->back().from};
  }
  return true;
}

void SequenceKv::await_others(const client::Match& match, std::size_t usable, PrefixHit& hit) {
  const std::size_t first = blocks_.size();
  std::size_t end = first;
  while (end < usable && match.blocks[end] != BlockState::absent) ++end;
  const auto tokens = static_cast<double>((end - first) * geometry_.block_tokens);
  if (options_.prefill_tokens_per_second > 0) {
    const std::chrono::duration<double> to_compute(tokens / options_.prefill_tokens_per_second);
    wait_left_ =
        std::min(wait_left_, std::chrono::duration_cast<std::chrono::nanoseconds>(to_compute));
  }
  client::AcquireOptions options;
  options.prefill_tokens_per_second = options_.prefill_tokens_per_second;
  options.wait = std::chrono::duration_cast<std::chrono::milliseconds>(wait_left_);
  if (options.wait.count() == 0) return;
  const auto begin = Steady::now();
  const auto acquired =
      space_->acquire(lease_->use(), std::span(prompt_keys_).subspan(first, end - first), options,
                      deadline() + options.wait);
  // The wait is no cost of the cache's: it is at most what computing would have taken.
  const auto waited = std::min<Steady::duration>(Steady::now() - begin, options.wait);
  wait_left_ -= waited;
  if (settle(begin + waited, acquired)) take(*acquired, hit);
}

void SequenceKv::take(std::span<const client::AcquiredBlock> blocks, PrefixHit& hit) {
  for (const client::AcquiredBlock& block : blocks) {
    append(block.slot);
    hit.cached_tokens += geometry_.block_tokens;
    hit.tokens_by_tier[static_cast<std::size_t>(block.from)] += geometry_.block_tokens;
  }
  full_blocks_ = blocks_.size();
}

Status SequenceKv::grow_to(std::size_t tokens) {
  const std::size_t wanted = blocks_for(tokens);
  if (wanted > blocks_.size() && may_reserve())
    reserve(wanted - blocks_.size(), false,
            Steady::now() + std::chrono::duration_cast<Steady::duration>(
                                std::min(options_.budget, options_.grow_wait)));
  while (blocks_.size() < wanted)
    if (Status status = append_private(); !status.ok()) return status;
  return copy_partial();
}

Status SequenceKv::copy_partial() {
  if (!partial_ || blocks_.size() <= full_blocks_) return {};
  const Status copied = kv_memory().copy_leading_tokens(
      geometry_, partial_->tokens, partial_->source.address, addresses_[full_blocks_]);
  if (copied.ok()) partial_.reset();
  return copied;
}

SequenceKv::Claim SequenceKv::reserve(std::size_t blocks, bool unless_taken,
                                      client::Deadline until) {
  std::span<const BlockKey> keys;
  if (blocks_.size() < prompt_keys_.size()) {
    keys = std::span(prompt_keys_).subspan(blocks_.size());
    keys = keys.first(std::min(keys.size(), blocks));
  }
  const auto begin = Steady::now();
  const std::size_t unnamed = blocks - keys.size();
  Result<std::optional<std::vector<client::Slot>>> slots;
  if (unless_taken) {
    slots = space_->claim(lease_->use(), keys, unnamed, until);
  } else {
    slots = space_->reserve(lease_->use(), keys, unnamed, until);
  }
  if (!settle(begin, slots)) return Claim::done;
  if (!*slots) return Claim::taken;
  for (const client::Slot& slot : **slots) {
    // As private memory is; so it is no cost of the cache's.
    if (!kv_memory().zero(slot.address, geometry_.block_bytes()).ok()) break;
    append(slot);
  }
  return Claim::done;
}

Status SequenceKv::append_private() {
  auto block = private_memory().allocate(geometry_.block_bytes());
  if (!block) return block.error();
  append(std::move(*block));
  return {};
}

void SequenceKv::append(client::Slot slot) {
  std::byte* const address = slot.address;
  append(std::make_shared<const KvBlock>(KvBlock{address, std::move(slot), lease_}));
}

void SequenceKv::append(KvBlockRef block) {
  addresses_.push_back(block->address);
  blocks_.push_back(std::move(block));
}

void SequenceKv::computed(std::span<const Token> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  if (!options_.store || !(space_ || options_.shared)) return;
  std::vector<client::SealBlock> full;
  for (; (full_blocks_ + 1) * geometry_.block_tokens <= tokens_.size(); ++full_blocks_) {
    const KvBlockRef& block = blocks_[full_blocks_];
    const auto of_block =
        std::span(tokens_).subspan(full_blocks_ * geometry_.block_tokens, geometry_.block_tokens);
    const BlockKey parent = last_key_;
    last_key_ = full_blocks_ < prompt_keys_.size() ? prompt_keys_[full_blocks_]
                                                   : derive_block_key(parent, of_block);
    if (options_.shared) options_.shared->publish(last_key_, block);
    if (!space_ || !block->slot) chain_unbroken_ = false;
    if (chain_unbroken_) full.push_back({block->slot, parent, {of_block.begin(), of_block.end()}});
  }
  if (!full.empty()) space_->seal(lease_->use(), std::move(full));
}

}  // namespace terrace::inference
