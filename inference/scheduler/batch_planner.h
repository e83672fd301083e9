// Who computes what in the next pass: the decisions of the scheduler, and nothing else. It knows
// sequences as numbers of tokens, and memory as somebody who says yes or no.
//
// A sequence is queued; then it holds one of `max_sequences` places: it waits while another one
// computes blocks that both have, its cached prefix is looked up, and it runs. Where memory is
// short, the sequence that is last in rank gives up what it has and is queued again, at its old
// rank. So whoever is first in rank goes on, and everybody becomes first.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "core/block_key.h"
#include "core/status.h"

namespace terrace::inference {

using SequenceId = std::uint64_t;

struct PlannerLimits {
  std::size_t max_sequences = 64;  // that hold a place at a time; at most half of pass_tokens
  std::size_t max_queued = 256;    // that wait for a place; those who gave one up do not count
  std::size_t pass_tokens = 512;   // of one pass, all sequences together
  std::uint32_t block_tokens = 32;
};

// The KV memory of sequences that run, as the planner needs it.
class SequenceMemory {
 public:
  virtual ~SequenceMemory() = default;
  // Makes room for `tokens` tokens in all. False if memory is short; then nothing has changed.
  virtual bool grow(SequenceId sequence, std::size_t tokens) = 0;
  // The sequence lets go of everything it has.
  virtual void give_up(SequenceId sequence) = 0;
};

struct NewSequence {
  SequenceId id = 0;
  int priority = 0;        // the lowest goes first
  std::size_t tokens = 0;  // of the prompt; at least one
  // Of the prompt's full blocks without its last token. What two sequences share is a leading run.
  std::vector<BlockKey> keys;
  bool publishes = true;  // others may use its blocks as soon as they are computed
};

// Consecutive tokens of one sequence.
struct PlannedPiece {
  SequenceId id = 0;
  std::size_t first = 0, tokens = 0;
  bool last = false;  // ends with the last token known: its logits choose the next
};

// One thread.
class BatchPlanner {
 public:
  explicit BatchPlanner(const PlannerLimits& limits) : limits_(limits) {}

  // Queues it. resource_exhausted if the queue is full.
  Status add(NewSequence sequence);

  // Whose cached prefix is to be looked up now; each is followed by looked_up() or remove().
  std::vector<SequenceId> begin_lookups();
  // Nothing if it has been removed or given up meanwhile.
  void looked_up(SequenceId id, std::size_t cached_tokens);

  // The next pass. Memory is there for all of its pieces. Empty if nobody runs.
  std::vector<PlannedPiece> plan(SequenceMemory& memory);
  // The sequences that not even an otherwise unused memory was enough for, since the last call;
  // they are removed.
  std::vector<SequenceId> take_hopeless();

  // The piece has been computed; after its last token `chosen` says whether there is one more.
  void computed(const PlannedPiece& piece, bool chosen);
  // Whatever it does.
  void remove(SequenceId id);

  std::size_t queued() const { return queue_.size(); }
  // Of those: who held a place already, and counts for no limit.
  std::size_t given_up() const { return given_up_; }
  std::size_t running() const { return running_.size(); }
  // With a place, whether or not they run yet.
  std::size_t placed() const { return sequences_.size() - queue_.size(); }
  std::uint64_t preemptions() const { return preemptions_; }

 private:
  enum class Phase { queued, waiting, looking_up, running };
  // Earlier is before later: by priority, then by arrival.
  struct Rank {
    int priority = 0;
    std::uint64_t arrival = 0;
    auto operator<=>(const Rank&) const = default;
  };
  struct Sequence {
    Rank rank;
    Phase phase = Phase::queued;
    std::size_t tokens = 0;    // known: the prompt, and what was generated
    std::size_t computed = 0;  // of those
    std::vector<BlockKey> keys;
    bool publishes = true;
    bool gave_up = false;    // was preempted and has no place yet
    SequenceId awaited = 0;  // while waiting: this one, until it has computed so many blocks
    std::size_t awaited_blocks = 0;
  };
  using Order = std::map<Rank, SequenceId>;

  // Whom a sequence should wait for, because both have a block that this one is about to compute.
  bool find_awaited(SequenceId id, Sequence& sequence) const;
  bool still_awaited(const Sequence& sequence) const;
  bool may_be_placed(const Sequence& sequence) const;
  // Adds up to `most` tokens of a sequence to the pass. False if it gave up instead.
  bool add_piece(SequenceId id, std::size_t most, SequenceMemory& memory,
                 std::vector<PlannedPiece>& pieces, std::size_t& left);
  void preempt(SequenceId id, SequenceMemory& memory);

  const PlannerLimits limits_;
  std::map<SequenceId, Sequence> sequences_;
  Order queue_, waiting_, looking_up_, running_;
  std::uint64_t arrivals_ = 0;
  std::uint64_t preemptions_ = 0;
  std::size_t given_up_ = 0;  // queued sequences that were preempted: memory is short
  std::size_t freed_ = 0;     // places left by sequences that ended since
  std::vector<SequenceId> hopeless_;
};

// How many keys two chains have in common, from the first on: of chained keys the first difference
// is found by halving.
std::size_t common_blocks(std::span<const BlockKey> one, std::span<const BlockKey> other);

}  // namespace terrace::inference
