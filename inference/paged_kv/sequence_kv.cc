#include "inference/paged_kv/sequence_kv.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "inference/paged_kv/copy_tokens.h"

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
      private_(geometry),
      wait_left_(options_.single_flight_wait) {
  if (!space_) return;
  lease_ = space_->new_lease();
  last_key_ = space_->digest();
}

SequenceKv::~SequenceKv() {
  // Also after a failed call: its answer may still come, and with it slots that nobody else would
  // give back.
  if (leased_) space_->release(lease_);
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
  if (!may_ask() || prompt.size() < 2) return hit;
  prompt_keys_ = derive_block_keys(space_->digest(), prompt, geometry_.block_tokens);
  const std::span<const Token> reusable = prompt.first(prompt.size() - 1);
  const std::size_t usable = reusable.size() / geometry_.block_tokens;
  for (std::size_t round = 0; may_ask() && round < max_rounds; ++round) {
    const auto begin = Steady::now();
    const auto match = space_->match(std::span(prompt_keys_).first(usable), reusable, deadline());
    if (!settle(begin, match)) break;
    if (!take_present(*match, usable, hit)) wait_left_ = {};  // nor does what is behind it help
    const bool pending =
        slots_.size() < usable && match->blocks[slots_.size()] == BlockState::pending;
    if (pending && may_wait() && may_ask()) {
      await_others(*match, usable, hit);
      continue;  // what lies behind is another question
    }
    const std::size_t missing = blocks_for(prompt.size()) - slots_.size();
    full_blocks_ = slots_.size();
    if (may_ask() && reserve(missing, may_wait() && slots_.size() < usable) == Claim::done) break;
  }
  if (full_blocks_ > 0) last_key_ = prompt_keys_[full_blocks_ - 1];
  if (partial_) {
    hit.cached_tokens += partial_->tokens;
    hit.tokens_by_tier[static_cast<std::size_t>(partial_->from)] += partial_->tokens;
  }
  tokens_.assign(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(hit.cached_tokens));
  return hit;
}

bool SequenceKv::take_present(const client::Match& match, std::size_t usable, PrefixHit& hit) {
  const std::size_t present = std::max<std::size_t>(match.matched_blocks, slots_.size());
  const bool whole_block_comes =
      present < usable && match.blocks[present] == BlockState::pending && may_wait();
  const bool partial_fits = present == match.matched_blocks && !whole_block_comes;
  std::uint32_t partial_tokens = partial_fits ? match.partial_tokens : 0;
  partial_.reset();
  std::size_t in_device = 0;
  while (in_device < present && match.blocks[in_device] == BlockState::device) ++in_device;
  while (slots_.size() < present || partial_tokens > 0) {
    if (!may_ask()) return false;
    const std::size_t first = slots_.size();
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
    leased_ = true;
    const auto acquired = space_->acquire(lease_, keys, options, deadline());
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
  const std::size_t first = slots_.size();
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
  leased_ = true;
  const auto acquired = space_->acquire(lease_, std::span(prompt_keys_).subspan(first, end - first),
                                        options, deadline() + options.wait);
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
  full_blocks_ = slots_.size();
}

Status SequenceKv::grow_to(std::size_t tokens) {
  const std::size_t wanted = blocks_for(tokens);
  // A block whose parent is not in the cache would never be found: after a private block all are
  // private.
  const bool reachable = chain_unbroken_ && (slots_.empty() || slots_.back());
  if (wanted > slots_.size() && may_ask() && reachable) reserve(wanted - slots_.size(), false);
  while (slots_.size() < wanted)
    if (Status status = append_private(); !status.ok()) return status;
  copy_partial();
  return {};
}

void SequenceKv::copy_partial() {
  if (!partial_ || slots_.size() <= full_blocks_) return;
  const std::size_t bytes = geometry_.block_bytes();
  copy_leading_tokens(geometry_, partial_->tokens, {partial_->source.address, bytes},
                      {addresses_[full_blocks_], bytes});
  partial_.reset();
}

SequenceKv::Claim SequenceKv::reserve(std::size_t blocks, bool unless_taken) {
  std::span<const BlockKey> keys;
  if (slots_.size() < prompt_keys_.size()) {
    keys = std::span(prompt_keys_).subspan(slots_.size());
    keys = keys.first(std::min(keys.size(), blocks));
  }
  const auto begin = Steady::now();
  leased_ = true;
  const std::size_t unnamed = blocks - keys.size();
  Result<std::optional<std::vector<client::Slot>>> slots;
  if (unless_taken) {
    slots = space_->claim(lease_, keys, unnamed, deadline());
  } else {
    slots = space_->reserve(lease_, keys, unnamed, deadline());
  }
  if (!settle(begin, slots)) return Claim::done;
  if (!*slots) return Claim::taken;
  for (const client::Slot& slot : **slots) {
    // As private memory is; so it is no cost of the cache's.
    std::memset(slot.address, 0, geometry_.block_bytes());
    append(slot);
  }
  return Claim::done;
}

Status SequenceKv::append_private() {
  if (Status status = private_.reserve(private_.capacity_tokens() + geometry_.block_tokens);
      !status.ok())
    return status;
  slots_.emplace_back();
  addresses_.push_back(private_.blocks().back());
  return {};
}

void SequenceKv::append(client::Slot slot) {
  addresses_.push_back(slot.address);
  slots_.push_back(std::move(slot));
}

void SequenceKv::computed(std::span<const Token> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  if (!space_ || !chain_unbroken_) return;
  std::vector<client::SealBlock> full;
  for (; (full_blocks_ + 1) * geometry_.block_tokens <= tokens_.size(); ++full_blocks_) {
    const client::Slot& slot = slots_[full_blocks_];
    if (!slot) {
      chain_unbroken_ = false;
      break;
    }
    const auto of_block =
        std::span(tokens_).subspan(full_blocks_ * geometry_.block_tokens, geometry_.block_tokens);
    full.push_back({slot, last_key_, {of_block.begin(), of_block.end()}});
    last_key_ = full_blocks_ < prompt_keys_.size() ? prompt_keys_[full_blocks_]
                                                   : derive_block_key(last_key_, of_block);
  }
  if (!full.empty()) space_->seal(lease_, std::move(full));
}

}  // namespace terrace::inference
