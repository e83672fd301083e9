#include "inference/paged_kv/sequence_kv.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace terrace::inference {

using Steady = std::chrono::steady_clock;

namespace {
// What is not in the device tier is asked for in pieces of this many blocks: a load that outlasts
// the budget costs its last piece, not the whole hit.
constexpr std::size_t blocks_per_load = 64;
}  // namespace

SequenceKv::SequenceKv(const KvGeometry& geometry, client::Space* space,
                       SequenceCacheOptions options)
    : geometry_(geometry), space_(space), options_(std::move(options)), private_(geometry) {
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
  if (!space_ || options_.budget.count() <= 0 || prompt.empty()) return hit;
  prompt_keys_ = derive_block_keys(space_->digest(), prompt, geometry_.block_tokens);

  const std::size_t usable = (prompt.size() - 1) / geometry_.block_tokens;
  if (usable == 0) return hit;
  auto begin = Steady::now();
  const auto match = space_->match(std::span(prompt_keys_).first(usable), prompt, deadline());
  if (!settle(begin, match) || match->matched_blocks == 0) return hit;

  take_prefix(*match, std::min<std::size_t>(match->matched_blocks, usable), hit);
  tokens_.assign(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(hit.cached_tokens));
  full_blocks_ = slots_.size();
  if (full_blocks_ > 0) last_key_ = prompt_keys_[full_blocks_ - 1];
  return hit;
}

void SequenceKv::take_prefix(const client::Match& match, std::size_t wanted, PrefixHit& hit) {
  std::size_t in_device = 0;
  while (in_device < wanted && match.blocks[in_device] == BlockState::device) ++in_device;
  while (slots_.size() < wanted) {
    const std::size_t first = slots_.size();
    const std::size_t count =
        first < in_device ? in_device - first : std::min(blocks_per_load, wanted - first);
    const auto begin = Steady::now();
    leased_ = true;
    const auto acquired = space_->acquire(lease_, std::span(prompt_keys_).subspan(first, count),
                                          options_.prefill_tokens_per_second, deadline());
    // After a failure nothing of this piece is held; the pieces before stay.
    if (!settle(begin, acquired)) return;
    for (const client::AcquiredBlock& block : *acquired) {
      append(block.slot);
      hit.cached_tokens += geometry_.block_tokens;
      hit.tokens_by_tier[static_cast<std::size_t>(block.from)] += geometry_.block_tokens;
    }
    if (acquired->size() < count) return;
  }
}

Status SequenceKv::grow_to(std::size_t tokens) {
  const std::size_t wanted = (tokens + geometry_.block_tokens - 1) / geometry_.block_tokens;
  if (wanted <= slots_.size()) return {};
  // A block whose parent is not in the cache would never be found: after a private block all are
  // private.
  const bool reachable = chain_unbroken_ && (slots_.empty() || slots_.back());
  if (space_ && options_.budget.count() > 0 && reachable) reserve(wanted - slots_.size());
  while (slots_.size() < wanted)
    if (Status status = append_private(); !status.ok()) return status;
  return {};
}

void SequenceKv::reserve(std::size_t blocks) {
  std::span<const BlockKey> keys;
  if (slots_.size() < prompt_keys_.size()) {
    keys = std::span(prompt_keys_).subspan(slots_.size());
    keys = keys.first(std::min(keys.size(), blocks));
  }
  const auto begin = Steady::now();
  leased_ = true;
  const auto slots = space_->reserve(lease_, keys, blocks - keys.size(), deadline());
  if (!settle(begin, slots)) return;
  for (const client::Slot& slot : *slots) {
    // As private memory is; so it is no cost of the cache's.
    std::memset(slot.address, 0, geometry_.block_bytes());
    append(slot);
  }
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
