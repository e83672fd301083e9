#include "inference/scheduler/batch_planner.h"

#include <algorithm>
#include <string>
#include <utility>

namespace terrace::inference {

std::size_t common_blocks(std::span<const BlockKey> one, std::span<const BlockKey> other) {
  std::size_t equal = 0, different = std::min(one.size(), other.size()) + 1;
  while (equal + 1 < different) {
    const std::size_t middle = (equal + different) / 2;
    (one[middle - 1] == other[middle - 1] ? equal : different) = middle;
  }
  return equal;
}

Status BatchPlanner::add(NewSequence added) {
  if (queue_.size() - given_up_ >= limits_.max_queued)
    return {StatusCode::resource_exhausted,
            "all " + std::to_string(limits_.max_queued) + " places of the queue are taken"};
  Sequence sequence;
  sequence.rank = {added.priority, ++arrivals_};
  sequence.tokens = added.tokens;
  sequence.keys = std::move(added.keys);
  sequence.publishes = added.publishes;
  queue_.emplace(sequence.rank, added.id);
  sequences_.emplace(added.id, std::move(sequence));
  return {};
}

bool BatchPlanner::find_awaited(SequenceId id, Sequence& sequence) const {
  std::size_t ready = 0, most = 0;
  for (const Order* order : {&looking_up_, &running_}) {
    for (const auto& [rank, other_id] : *order) {
      const Sequence& other = sequences_.at(other_id);
      if (other_id == id || !other.publishes) continue;
      const std::size_t common = common_blocks(sequence.keys, other.keys);
      ready = std::max(ready, std::min(common, other.computed / limits_.block_tokens));
      // Whoever comes later in rank may take longer than computing it again.
      if (common <= most || sequence.rank < rank) continue;
      most = common;
      sequence.awaited = other_id;
      sequence.awaited_blocks = common;
    }
  }
  return most > ready;
}

bool BatchPlanner::still_awaited(const Sequence& sequence) const {
  const auto found = sequences_.find(sequence.awaited);
  if (found == sequences_.end()) return false;
  const Sequence& other = found->second;
  return (other.phase == Phase::looking_up || other.phase == Phase::running) &&
         other.computed < sequence.awaited_blocks * limits_.block_tokens;
}

bool BatchPlanner::may_be_placed(const Sequence& sequence) const {
  if (placed() >= limits_.max_sequences) return false;
  // While memory is short one comes for each that ends, or to take the memory of a lower one.
  if (given_up_ == 0 || freed_ > 0 || placed() == 0) return true;
  return !running_.empty() && sequence.rank < running_.rbegin()->first;
}

std::vector<SequenceId> BatchPlanner::begin_lookups() {
  std::vector<SequenceId> begun;
  const auto place = [&](SequenceId id, Sequence& sequence) {
    const bool waits = find_awaited(id, sequence);
    sequence.phase = waits ? Phase::waiting : Phase::looking_up;
    (waits ? waiting_ : looking_up_).emplace(sequence.rank, id);
    if (!waits) begun.push_back(id);
  };
  // Those that wait were here first.
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    Sequence& sequence = sequences_.at(at->second);
    const SequenceId id = at->second;
    if (still_awaited(sequence)) {
      ++at;
      continue;
    }
    at = waiting_.erase(at);
    place(id, sequence);  // maybe to wait for another one; then it is met again, and stays
  }
  while (!queue_.empty()) {
    const SequenceId id = queue_.begin()->second;
    Sequence& sequence = sequences_.at(id);
    if (!may_be_placed(sequence)) break;
    if (given_up_ > 0 && freed_ > 0) --freed_;
    if (std::exchange(sequence.gave_up, false)) --given_up_;
    if (given_up_ == 0) freed_ = 0;
    queue_.erase(queue_.begin());
    place(id, sequence);
  }
  return begun;
}

void BatchPlanner::looked_up(SequenceId id, std::size_t cached_tokens) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end() || found->second.phase != Phase::looking_up) return;
  Sequence& sequence = found->second;
  looking_up_.erase(sequence.rank);
  sequence.phase = Phase::running;
  sequence.computed = cached_tokens;
  running_.emplace(sequence.rank, id);
}

std::vector<PlannedPiece> BatchPlanner::plan(SequenceMemory& memory) {
  std::vector<PlannedPiece> pieces;
  std::size_t left = limits_.pass_tokens;
  // First those that need one token, so that no long prompt holds them up; they are at most half.
  // Their places are asked for one by one: whoever comes later in rank may give up on the way.
  for (const bool single : {true, false}) {
    std::vector<SequenceId> turn;
    for (const auto& [rank, id] : running_) {
      const Sequence& sequence = sequences_.at(id);
      if ((sequence.tokens - sequence.computed == 1) == single) turn.push_back(id);
    }
    for (const SequenceId id : turn) {
      if (left == 0) break;
      if (sequences_.contains(id) && sequences_.at(id).phase == Phase::running)
        add_piece(id, left, memory, pieces, left);
    }
  }
  return pieces;
}

bool BatchPlanner::add_piece(SequenceId id, std::size_t most, SequenceMemory& memory,
                             std::vector<PlannedPiece>& pieces, std::size_t& left) {
  const Sequence& sequence = sequences_.at(id);
  std::size_t tokens = std::min(sequence.tokens - sequence.computed, most);
  // Pieces end at whole blocks where they can: then others have those at once.
  const std::size_t end = sequence.computed + tokens;
  if (end < sequence.tokens &&
      end / limits_.block_tokens * limits_.block_tokens > sequence.computed)
    tokens = end / limits_.block_tokens * limits_.block_tokens - sequence.computed;
  while (!memory.grow(id, sequence.computed + tokens)) {
    const SequenceId victim = running_.rbegin()->second;
    const bool alone = running_.size() == 1 && looking_up_.empty();
    if (victim == id && alone) {
      memory.give_up(id);
      remove(id);
      hopeless_.push_back(id);
      return false;
    }
    // What it was to compute in this pass is not computed.
    std::erase_if(pieces, [&](const PlannedPiece& piece) {
      if (piece.id == victim) left += piece.tokens;
      return piece.id == victim;
    });
    preempt(victim, memory);
    if (victim == id) return false;
  }
  pieces.push_back({.id = id,
                    .first = sequence.computed,
                    .tokens = tokens,
                    .last = sequence.computed + tokens == sequence.tokens});
  left -= tokens;
  return true;
}

void BatchPlanner::preempt(SequenceId id, SequenceMemory& memory) {
  memory.give_up(id);
  Sequence& sequence = sequences_.at(id);
  running_.erase(sequence.rank);
  sequence.phase = Phase::queued;
  sequence.computed = 0;
  sequence.gave_up = true;
  queue_.emplace(sequence.rank, id);
  ++given_up_;
  ++preemptions_;
  freed_ = 0;
}

std::vector<SequenceId> BatchPlanner::take_hopeless() { return std::exchange(hopeless_, {}); }

void BatchPlanner::computed(const PlannedPiece& piece, bool chosen) {
  const auto found = sequences_.find(piece.id);
  if (found == sequences_.end()) return;
  found->second.computed = piece.first + piece.tokens;
  if (chosen) ++found->second.tokens;
}

void BatchPlanner::remove(SequenceId id) {
  const auto found = sequences_.find(id);
  if (found == sequences_.end()) return;
  const Sequence& sequence = found->second;
  switch (sequence.phase) {
    case Phase::queued:
      queue_.erase(sequence.rank);
      if (sequence.gave_up) --given_up_;
      break;
    case Phase::waiting:
      waiting_.erase(sequence.rank);
      break;
    case Phase::looking_up:
      looking_up_.erase(sequence.rank);
      break;
    case Phase::running:
      running_.erase(sequence.rank);
      break;
  }
  if (sequence.phase != Phase::queued) ++freed_;
  sequences_.erase(found);
}

}  // namespace terrace::inference
