// The KV memory of one sequence: a table of blocks, some of them shared prefix blocks of the
// daemon's arena, some slots of the arena that this sequence fills, some private memory. Attention
// reads them all in place.
//
// The cache can only help: whatever it does not answer in time is computed into private memory, and
// a sequence that has used up its budget does not ask again.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/client.h"
#include "core/block_key.h"
#include "core/kv_layout.h"
#include "core/tier.h"
#include "inference/paged_kv/kv_block.h"
#include "inference/paged_kv/prefix_table.h"
#include "inference/paged_kv/private_memory.h"

namespace terrace::inference {

// What of a prompt need not be computed: whole blocks, read in place, and the first tokens of one
// more, copied.
struct PrefixHit {
  std::size_t cached_tokens = 0;
  std::array<std::size_t, tier_count> tokens_by_tier{};  // by the tier where match found them
};

struct SequenceCacheOptions {
  // How long the cache may hold up this sequence, in all.
  std::chrono::nanoseconds budget{0};
  // How fast this worker computes a prompt; 0 if not known yet. What loads slower is computed
  // instead.
  double prefill_tokens_per_second = 0;
  // How long, beyond the budget, to wait in all for what another worker is computing right now, and
  // never longer than computing it here takes; 0: compute it as well.
  std::chrono::nanoseconds single_flight_wait{0};
  // How long one grow_to() may wait for slots; then it takes private memory.
  std::chrono::nanoseconds grow_wait = std::chrono::nanoseconds::max();
  // False: what is cached is used, but nothing of this sequence is kept for others.
  bool store = true;
  // Where the sequences of this process find each other's blocks, under keys that begin at the
  // space, or at `root` where there is none; null: they do not share.
  PrefixTable* shared = nullptr;
  BlockKey root;
  // Where memory outside of the arena comes from; null: the machine's, without a limit. To be given
  // where `shared` is, or the backend's memory is another.
  // Both must outlive the sequence and all that share its blocks.
  PrivateMemory* memory = nullptr;
  // Told, at most once a sequence, why the cache was of no use.
  std::function<void(const Status&)> on_failure;
};

class SequenceKv {
 public:
  // `space` may be null: no cache. It must outlive the sequence and all that share its blocks.
  SequenceKv(const KvGeometry& geometry, client::Space* space, SequenceCacheOptions options);
  SequenceKv(const SequenceKv&) = delete;
  SequenceKv& operator=(const SequenceKv&) = delete;

  // Finds the cached prefix of `prompt` (never all of it: the last token is always computed), waits
  // for what of it another worker is computing, takes its blocks, and reserves the others' places
  // so that other workers may wait for this one. To be called once, first; then grow_to().
  PrefixHit start(std::span<const Token> prompt);

  // Makes blocks for `tokens` tokens in all, zeroed: in the arena while it has room, else private.
  // resource_exhausted if memory is short.
  Status grow_to(std::size_t tokens);

  // One address a block, for SequenceStep::blocks. Valid until the next grow_to().
  std::span<std::byte* const> blocks() const { return addresses_; }

  // The KV of the next `tokens` of the sequence has been computed: blocks that became full are
  // sealed, without waiting. The prefix that start() found counts as computed.
  void computed(std::span<const Token> tokens);

  std::size_t length() const { return tokens_.size(); }

 private:
  // A block whose first tokens this sequence shares.
  struct Partial {
    client::Slot source;
    std::uint32_t tokens = 0;
    Tier from = Tier::device;
  };
  enum class Claim { done, taken };

  // Whether the cache may still be asked, and others waited for.
  bool may_ask() const { return space_ && options_.budget.count() > 0; }
  bool may_reserve() const { return may_ask() && options_.store && reachable(); }
  bool may_wait() const { return wait_left_ >= std::chrono::milliseconds(1); }
  std::size_t blocks_for(std::size_t tokens) const {
    return (tokens + geometry_.block_tokens - 1) / geometry_.block_tokens;
  }
  // Holds what is present of the first `usable` blocks of the prompt beyond those held already, and
  // the partial block behind them if it is the next to be had. False if less came.
  bool take_present(const client::Match& match, std::size_t usable, PrefixHit& hit);
  // Asks the daemon: all that start() does where there is one.
  void start_with_daemon(std::span<const Token> prompt, std::size_t usable, PrefixHit& hit);
  // Holds what sequences of this process have of the blocks behind those held.
  void take_shared(std::size_t usable, PrefixHit& hit);
  // Waits for the blocks behind those held, which others are computing.
  void await_others(const client::Match& match, std::size_t usable, PrefixHit& hit);
  // Slots for `blocks` more. `taken`, and none, if `unless_taken` and the next one is there by now
  // or computed by somebody else.
  Claim reserve(std::size_t blocks, bool unless_taken, client::Deadline until);
  void take(std::span<const client::AcquiredBlock> blocks, PrefixHit& hit);
  Status copy_partial();
  PrivateMemory& private_memory() { return options_.memory ? *options_.memory : unlimited_; }
  KvMemory& kv_memory() { return private_memory().kv_memory(); }
  Status append_private();
  void append(client::Slot slot);
  void append(KvBlockRef block);
  // Whether a block behind those held would be found by others: a block whose parent is not in the
  // cache never is, so after a private block all are private.
  bool reachable() const { return chain_unbroken_ && (blocks_.empty() || blocks_.back()->slot); }
  client::Deadline deadline() const;
  // Charges the budget for the time since `begin`, and gives the cache up for this sequence on a
  // failure.
  template <typename T>
  bool settle(std::chrono::steady_clock::time_point begin, const Result<T>& answer);

  const KvGeometry geometry_;
  client::Space* space_;
  SequenceCacheOptions options_;
  std::shared_ptr<SequenceLease> lease_;
  PrivateMemory unlimited_;  // where the options name no other
  std::vector<KvBlockRef> blocks_;
  std::vector<std::byte*> addresses_;  // of blocks_
  std::vector<BlockKey> prompt_keys_;
  std::optional<Partial> partial_;  // until it is copied behind the blocks held
  std::chrono::nanoseconds wait_left_;
  std::vector<Token> tokens_;    // computed so far
  std::size_t full_blocks_ = 0;  // of tokens_: those whose keys are known to the chain
  BlockKey last_key_;
  bool chain_unbroken_ = true;  // every full block so far is in the cache or on its way there
};

}  // namespace terrace::inference
