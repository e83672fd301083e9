// The scheduler's decisions, with sequences that are numbers and memory that is a number.
#include "inference/scheduler/batch_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>

namespace terrace::inference {
namespace {

constexpr std::uint32_t block = 4;

BlockKey key_of(std::uint64_t prefix, std::uint64_t number) {
  return derive_block_key(
      {}, std::vector<Token>{static_cast<Token>(prefix), static_cast<Token>(number)});
}

// Keys of a prompt whose first blocks are those of a family.
std::vector<BlockKey> keys_of(std::size_t tokens, std::uint64_t family, std::size_t shared_blocks,
                              SequenceId id) {
  std::vector<BlockKey> keys;
  for (std::size_t i = 0; i < (tokens - 1) / block; ++i)
    keys.push_back(i < shared_blocks ? key_of(family, i) : key_of(1'000'000 + id, i));
  return keys;
}

class CountedMemory final : public SequenceMemory {
 public:
  explicit CountedMemory(std::size_t blocks = std::numeric_limits<std::size_t>::max())
      : blocks_(blocks) {}
  bool grow(SequenceId sequence, std::size_t tokens) override {
    const std::size_t wanted = (tokens + block - 1) / block;
    const std::size_t has = held_[sequence];
    if (wanted <= has) return true;
    if (used_ + wanted - has > blocks_) return false;
    used_ += wanted - has;
    held_[sequence] = wanted;
    return true;
  }
  void give_up(SequenceId sequence) override {
    used_ -= held_[sequence];
    held_.erase(sequence);
  }
  std::size_t used() const { return used_; }

 private:
  std::size_t blocks_, used_ = 0;
  std::map<SequenceId, std::size_t> held_;
};

class BatchPlannerTest : public ::testing::Test {
 protected:
  static NewSequence sequence(SequenceId id, std::size_t tokens, int priority = 0) {
    return {.id = id, .priority = priority, .tokens = tokens, .keys = keys_of(tokens, 0, 0, id)};
  }
  void look_up_all(BatchPlanner& planner, std::size_t cached = 0) {
    for (const SequenceId id : planner.begin_lookups()) planner.looked_up(id, cached);
  }
  std::map<SequenceId, std::size_t> plan(BatchPlanner& planner) {
    std::map<SequenceId, std::size_t> tokens;
    for (const PlannedPiece& piece : planner.plan(memory_)) {
      tokens[piece.id] = piece.tokens;
      planner.computed(piece, piece.last);
    }
    return tokens;
  }
  using Tokens = std::map<SequenceId, std::size_t>;

  CountedMemory memory_;
};

TEST_F(BatchPlannerTest, ALongPromptHoldsUpNobodyAndIsHeldUpByNobody) {
  BatchPlanner planner({.max_sequences = 4, .pass_tokens = 16, .block_tokens = block});
  ASSERT_TRUE(planner.add(sequence(1, 2)).ok());
  ASSERT_TRUE(planner.add(sequence(2, 100)).ok());
  ASSERT_TRUE(planner.add(sequence(3, 3)).ok());
  look_up_all(planner);
  EXPECT_EQ(plan(planner), (Tokens{{1, 2}, {2, 12}, {3, 2}}));  // up to whole blocks
  EXPECT_EQ(plan(planner), (Tokens{{1, 1}, {2, 12}, {3, 1}}));
  EXPECT_EQ(plan(planner), (Tokens{{1, 1}, {2, 12}, {3, 1}}));
}

TEST_F(BatchPlannerTest, PlacesGoByPriorityThenByArrival) {
  BatchPlanner planner({.max_sequences = 2, .pass_tokens = 16, .block_tokens = block});
  ASSERT_TRUE(planner.add(sequence(1, 8, 1)).ok());
  ASSERT_TRUE(planner.add(sequence(2, 8, 0)).ok());
  ASSERT_TRUE(planner.add(sequence(3, 8, 0)).ok());
  EXPECT_EQ(planner.begin_lookups(), (std::vector<SequenceId>{2, 3}));
  planner.remove(3);
  EXPECT_EQ(planner.begin_lookups(), (std::vector<SequenceId>{1}));
}

TEST_F(BatchPlannerTest, AFullQueueRefuses) {
  BatchPlanner planner({.max_sequences = 1, .max_queued = 2, .block_tokens = block});
  ASSERT_TRUE(planner.add(sequence(1, 8)).ok());
  look_up_all(planner);
  ASSERT_TRUE(planner.add(sequence(2, 8)).ok());
  ASSERT_TRUE(planner.add(sequence(3, 8)).ok());
  EXPECT_EQ(planner.add(sequence(4, 8)).code(), StatusCode::resource_exhausted);
}

TEST_F(BatchPlannerTest, OneComputesWhatOthersShareAndTheyWait) {
  BatchPlanner planner({.max_sequences = 8, .pass_tokens = 8, .block_tokens = block});
  for (SequenceId id = 1; id <= 3; ++id)
    ASSERT_TRUE(planner.add({.id = id, .tokens = 24, .keys = keys_of(24, 7, 3, id)}).ok());
  EXPECT_EQ(planner.begin_lookups(), (std::vector<SequenceId>{1}));
  planner.looked_up(1, 0);
  EXPECT_EQ(plan(planner), (Tokens{{1, 8}}));
  EXPECT_TRUE(planner.begin_lookups().empty());
  EXPECT_EQ(plan(planner), (Tokens{{1, 8}}));
  EXPECT_EQ(planner.begin_lookups(), (std::vector<SequenceId>{2, 3}));
}

TEST_F(BatchPlannerTest, WhenTheOneThatComputesGoesAnotherTakesOver) {
  BatchPlanner planner({.max_sequences = 8, .pass_tokens = 8, .block_tokens = block});
  for (SequenceId id = 1; id <= 3; ++id)
    ASSERT_TRUE(planner.add({.id = id, .tokens = 24, .keys = keys_of(24, 7, 3, id)}).ok());
  look_up_all(planner);
  planner.remove(1);
  EXPECT_EQ(planner.begin_lookups(), (std::vector<SequenceId>{2}));
}

TEST_F(BatchPlannerTest, NobodyWaitsForOneThatPublishesNothingOrComesLaterInRank) {
  BatchPlanner planner({.max_sequences = 8, .pass_tokens = 8, .block_tokens = block});
  ASSERT_TRUE(
      planner.add({.id = 1, .priority = 5, .tokens = 24, .keys = keys_of(24, 7, 3, 1)}).ok());
  ASSERT_TRUE(planner
                  .add({.id = 2,
                        .priority = 5,
                        .tokens = 24,
                        .keys = keys_of(24, 8, 3, 2),
                        .publishes = false})
                  .ok());
  look_up_all(planner);
  ASSERT_TRUE(planner.add({.id = 3, .tokens = 24, .keys = keys_of(24, 7, 3, 3)}).ok());
  ASSERT_TRUE(
      planner.add({.id = 4, .priority = 6, .tokens = 24, .keys = keys_of(24, 8, 3, 4)}).ok());
  EXPECT_EQ(planner.begin_lookups(), (std::vector<SequenceId>{3, 4}));
}

TEST_F(BatchPlannerTest, WhereMemoryIsShortTheLastInRankGivesItsOwnUp) {
  memory_ = CountedMemory(6);
  BatchPlanner planner({.max_sequences = 4, .pass_tokens = 64, .block_tokens = block});
  for (SequenceId id = 1; id <= 3; ++id) ASSERT_TRUE(planner.add(sequence(id, 8)).ok());
  look_up_all(planner);
  EXPECT_EQ(plan(planner), (Tokens{{1, 8}, {2, 8}, {3, 8}}));
  EXPECT_EQ(plan(planner), (Tokens{{1, 1}, {2, 1}}));
  EXPECT_EQ(planner.preemptions(), 1u);
  look_up_all(planner);  // not again before somebody ends
  EXPECT_EQ(planner.running(), 2u);
  memory_.give_up(1);
  planner.remove(1);
  look_up_all(planner);
  EXPECT_EQ(planner.running(), 2u);
}

TEST_F(BatchPlannerTest, WhatMemoryCanNeverHoldIsHopeless) {
  memory_ = CountedMemory(3);
  BatchPlanner planner({.max_sequences = 4, .pass_tokens = 8, .block_tokens = block});
  ASSERT_TRUE(planner.add(sequence(1, 40)).ok());
  look_up_all(planner);
  EXPECT_EQ(plan(planner), (Tokens{{1, 8}}));
  EXPECT_TRUE(plan(planner).empty());
  EXPECT_EQ(planner.take_hopeless(), (std::vector<SequenceId>{1}));
  EXPECT_EQ(memory_.used(), 0u);
}

// Random requests with shared prefixes, priorities and hang-ups over too little memory: everybody
// ends, whoever is first goes on in every pass, no limit is passed, and what is shared is computed
// once.
class RandomLoad {
 public:
  RandomLoad(unsigned seed, std::size_t memory_blocks)
      : random_(seed), memory_(memory_blocks), planner_(limits_) {}

  void run(int arrivals) {
    int steps = 0;
    for (; arrivals > 0 || !live_.empty(); ++steps) {
      ASSERT_LT(steps, 100'000) << "somebody starves";
      if (arrivals > 0 && random_() % 3 == 0) {
        arrive();
        --arrivals;
      }
      if (!live_.empty() && random_() % 64 == 0) hang_up();
      for (const SequenceId id : planner_.begin_lookups()) lookups_.push_back(id);
      std::shuffle(lookups_.begin(), lookups_.end(), random_);
      while (!lookups_.empty() && random_() % 4 != 0) finish_lookup();
      pass();
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(planner_.placed() + planner_.queued(), 0u);
    EXPECT_EQ(memory_.used(), 0u);
  }
  std::uint64_t preemptions() const { return planner_.preemptions(); }
  std::size_t computed() const { return computed_; }
  std::size_t computed_twice() const { return computed_twice_; }

 private:
  struct Live {
    int priority = 0;
    std::size_t tokens = 0, computed = 0, end = 0;
    bool runs = false;
    std::vector<BlockKey> keys;
  };

  void arrive() {
    const SequenceId id = ++last_id_;
    Live live;
    live.priority = static_cast<int>(random_() % 2);
    live.tokens = 1 + random_() % 60;
    live.end = live.tokens + 1 + random_() % 20;
    live.keys = keys_of(live.tokens, random_() % 3, random_() % 12, id);
    const Status added = planner_.add(
        {.id = id, .priority = live.priority, .tokens = live.tokens, .keys = live.keys});
    if (added.ok()) live_.emplace(id, std::move(live));
    EXPECT_LE(planner_.queued(), limits_.max_queued + 2 * limits_.max_sequences);
  }
  void drop(SequenceId id) {
    memory_.give_up(id);
    planner_.remove(id);
    live_.erase(id);
  }
  void hang_up() {
    auto at = live_.begin();
    std::advance(at, static_cast<long>(random_() % live_.size()));
    drop(at->first);
  }
  void finish_lookup() {
    const SequenceId id = lookups_.back();
    lookups_.pop_back();
    const auto found = live_.find(id);
    std::size_t cached = 0;
    if (found != live_.end()) {
      Live& live = found->second;
      while (cached < live.keys.size() && holders_[live.keys[cached]] > 0) ++cached;
      if (!memory_.grow(id, cached * block)) cached = 0;
      for (std::size_t i = 0; i < cached; ++i) ++holders_[live.keys[i]];
      live.computed = cached * block;
      live.runs = true;
    }
    planner_.looked_up(id, cached * block);
  }
  void pass() {
    const auto pieces = planner_.plan(memory_);
    EXPECT_TRUE(planner_.take_hopeless().empty());  // each fits alone
    std::size_t tokens = 0;
    std::set<SequenceId> planned;
    for (const PlannedPiece& piece : pieces) {
      Live& live = live_.at(piece.id);
      // One that was given up began anew.
      if (piece.first != live.computed) ADD_FAILURE() << "a piece that does not follow";
      EXPECT_GT(piece.tokens, 0u);
      EXPECT_EQ(piece.last, piece.first + piece.tokens == live.tokens);
      tokens += piece.tokens;
      planned.insert(piece.id);
    }
    EXPECT_EQ(planned.size(), pieces.size());
    EXPECT_LE(tokens, limits_.pass_tokens);
    EXPECT_LE(planner_.placed(), limits_.max_sequences);
    expect_progress(planned);
    for (const PlannedPiece& piece : pieces) compute(piece);
  }
  void expect_progress(const std::set<SequenceId>& planned) const {
    // Ranks are (priority, id) here.
    const Live* first = nullptr;
    SequenceId first_id = 0;
    for (const auto& [id, live] : live_)
      if (live.runs && (!first || live.priority < first->priority)) first = &live, first_id = id;
    EXPECT_TRUE(!first || planned.contains(first_id)) << first_id;
  }
  void compute(const PlannedPiece& piece) {
    Live& live = live_.at(piece.id);
    for (std::size_t i = piece.first / block; i < (piece.first + piece.tokens) / block; ++i)
      if (i < live.keys.size() && ++computed_ > 0 && holders_[live.keys[i]]++ > 0)
        ++computed_twice_;
    live.computed = piece.first + piece.tokens;
    const bool goes_on = !piece.last || live.tokens < live.end;
    if (piece.last && goes_on) ++live.tokens;
    planner_.computed(piece, piece.last && goes_on);
    if (!goes_on) drop(piece.id);
  }

  // The memory of the planner's calls, which also sees who gives up.
  class Memory final : public SequenceMemory {
   public:
    Memory(std::size_t blocks) : counted_(blocks) {}
    bool grow(SequenceId sequence, std::size_t tokens) override {
      return counted_.grow(sequence, tokens);
    }
    void give_up(SequenceId sequence) override {
      counted_.give_up(sequence);
      if (owner) {
        const auto found = owner->live_.find(sequence);
        if (found == owner->live_.end()) return;
        for (std::size_t i = 0; i < found->second.computed / block; ++i)
          if (i < found->second.keys.size()) --owner->holders_[found->second.keys[i]];
        found->second.computed = 0;
        found->second.runs = false;
      }
    }
    std::size_t used() const { return counted_.used(); }
    RandomLoad* owner = nullptr;

   private:
    CountedMemory counted_;
  };

  const PlannerLimits limits_{
      .max_sequences = 6, .max_queued = 10, .pass_tokens = 24, .block_tokens = block};
  std::mt19937 random_;
  Memory memory_;
  BatchPlanner planner_;
  std::map<SequenceId, Live> live_;
  std::vector<SequenceId> lookups_;
  std::map<BlockKey, int> holders_;
  SequenceId last_id_ = 0;
  std::size_t computed_ = 0, computed_twice_ = 0;  // blocks of prompts

 public:
  void watch() { memory_.owner = this; }
};

TEST(BatchPlannerRandom, EverybodyEndsAndNoLimitIsPassed) {
  std::uint64_t preemptions = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomLoad load(seed, 22 + seed % 20);
    load.watch();
    load.run(150);
    preemptions += load.preemptions();
    if (HasFailure()) return;
  }
  EXPECT_GT(preemptions, 100u);
}

TEST(BatchPlannerRandom, WithEnoughMemoryNobodyGivesUp) {
  RandomLoad load(1, 10'000);
  load.watch();
  load.run(300);
  EXPECT_EQ(load.preemptions(), 0u);
  // But where the one that both had seen went away meanwhile, or came later in rank.
  EXPECT_LT(load.computed_twice() * 20, load.computed());
}

}  // namespace
}  // namespace terrace::inference
