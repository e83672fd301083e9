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
#include <span>
#include <string>
#include <vector>

#include "client/client.h"
#include "core/block_key.h"
#include "core/kv_layout.h"
#include "core/tier.h"
#include "inference/model/private_kv.h"

namespace terrace::inference {

// What of a prompt need not be computed.
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
  // Told, at most once a sequence, why the cache was of no use.
  std::function<void(const Status&)> on_failure;
};

class SequenceKv {
 public:
  // `space` may be null: no cache. It must outlive the sequence.
  SequenceKv(const KvGeometry& geometry, client::Space* space, SequenceCacheOptions options);
  ~SequenceKv();
  SequenceKv(const SequenceKv&) = delete;
  SequenceKv& operator=(const SequenceKv&) = delete;

  // Finds the cached prefix of `prompt` (never all of it: the last token is always computed) and
  // takes its blocks. To be called once, first.
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
  // Holds the first `wanted` blocks of the prompt, or fewer if they do not come in time.
  void take_prefix(const client::Match& match, std::size_t wanted, PrefixHit& hit);
  void reserve(std::size_t blocks);
  Status append_private();
  void append(client::Slot slot);
  client::Deadline deadline() const;
  // Charges the budget for the time since `begin`, and gives the cache up for this sequence on a
  // failure.
  template <typename T>
  bool settle(std::chrono::steady_clock::time_point begin, const Result<T>& answer);

  const KvGeometry geometry_;
  client::Space* space_;
  SequenceCacheOptions options_;
  client::LeaseId lease_ = 0;
  bool leased_ = false;                // the daemon may know of the lease
  std::vector<client::Slot> slots_;    // one a block: in an arena, or empty for a private one
  std::vector<std::byte*> addresses_;  // one a block
  PrivateKv private_;                  // the private blocks, in order
  std::vector<BlockKey> prompt_keys_;
  std::vector<Token> tokens_;    // computed so far
  std::size_t full_blocks_ = 0;  // of tokens_: those whose keys are known to the chain
  BlockKey last_key_;
  bool chain_unbroken_ = true;  // every full block so far is in the cache or on its way there
};

}  // namespace terrace::inference
