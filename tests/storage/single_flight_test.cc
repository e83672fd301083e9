// Waiting for what another session is computing.
#include <functional>
#include <optional>

#include "core/checksum.h"
#include "tests/storage/support/cache_fixture.h"

namespace terrace::storage {
namespace {

class SingleFlight : public CacheFixture {
 protected:
  struct Wait {
    std::optional<std::vector<AcquiredBlock>> answer;
    bool answered() const { return answer.has_value(); }
    std::size_t blocks() const { return answer ? answer->size() : SIZE_MAX; }
  };

  // An acquire that waits `wait_ms` for what others compute.
  std::shared_ptr<Wait> wait_for(SessionId session, LeaseId lease, std::span<const BlockKey> keys,
                                 std::uint32_t wait_ms = 1000) {
    auto wait = std::make_shared<Wait>();
    cache_->acquire(session, lease, space_, keys, {.wait_ms = wait_ms}, [wait](auto blocks) {
      EXPECT_FALSE(wait->answered()) << "called back twice";
      wait->answer = std::move(blocks);
    });
    return wait;
  }

  void fill_and_seal(SessionId session, LeaseId lease, SlotOffset slot, const Prompt& prompt,
                     std::size_t index) {
    std::ranges::copy(contents(prompt.keys[index]), slot_bytes(slot).begin());
    ASSERT_EQ(seal_one(session, lease, slot, prompt, index)[0], SealOutcome::sealed);
    check();
  }

  void SetUp() override {
    start({});
    computing_ = cache_->open_session();
    waiting_ = cache_->open_session();
  }

  SessionId computing_ = 0, waiting_ = 0;
};

TEST_F(SingleFlight, AWaiterGetsEachBlockAsItIsSealedAndAnswersWhenAllAreThere) {
  const Prompt p = prompt(1, 3);
  const auto slots = cache_->reserve(computing_, 1, space_, p.keys, 0);
  const auto wait = wait_for(waiting_, 1, p.keys);
  EXPECT_EQ(cache_->stats().waiting_acquires, 1u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_FALSE(wait->answered());
    fill_and_seal(computing_, 1, slots[i], p, i);
    finish_everything();
  }
  ASSERT_EQ(wait->blocks(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*wait->answer)[i].slot, slots[i]);
    EXPECT_TRUE(holds(slots[i], p.keys[i]));
  }
  EXPECT_EQ(cache_->stats().waiting_acquires, 0u);
  EXPECT_EQ(cache_->stats().awaited_blocks, 3u);
  EXPECT_EQ(cache_->stats().expired_waits, 0u);
  check();
}

TEST_F(SingleFlight, WhatIsHeldOfAWaitIsNotEvicted) {
  const Prompt p = prompt(1, 2), other = prompt(2, 16);
  const auto slots = cache_->reserve(computing_, 1, space_, p.keys, 0);
  const auto wait = wait_for(waiting_, 1, p.keys);
  fill_and_seal(computing_, 1, slots[0], p, 0);
  finish_everything();
  cache_->reserve(cache_->open_session(), 1, space_, other.keys, 0);
  EXPECT_EQ(cache_->match(space_, p.keys, {}).matched_blocks, 1u);
  fill_and_seal(computing_, 1, slots[1], p, 1);
  finish_everything();
  EXPECT_EQ(wait->blocks(), 2u);
}

TEST_F(SingleFlight, AWaitFollowsThePresentRun) {
  const Prompt p = prompt(1, 4);
  put(p, 0, 2);
  const auto slots = cache_->reserve(computing_, 1, space_, std::span(p.keys).subspan(2), 0);
  const auto wait = wait_for(waiting_, 1, p.keys);
  finish_everything();
  EXPECT_FALSE(wait->answered());
  fill_and_seal(computing_, 1, slots[0], p, 2);
  fill_and_seal(computing_, 1, slots[1], p, 3);
  finish_everything();
  EXPECT_EQ(wait->blocks(), 4u);
}

TEST_F(SingleFlight, WithoutALimitNothingIsWaitedFor) {
  const Prompt p = prompt(1, 2);
  cache_->reserve(computing_, 1, space_, p.keys, 0);
  EXPECT_EQ(wait_for(waiting_, 1, p.keys, 0)->blocks(), 0u);
}

TEST_F(SingleFlight, AtItsLimitAWaitAnswersWithWhatThereIs) {
  const Prompt p = prompt(1, 3);
  const auto slots = cache_->reserve(computing_, 1, space_, p.keys, 0);
  const std::int64_t begin_ns = clock_.monotonic_ns();
  const auto wait = wait_for(waiting_, 1, p.keys, 100);
  const auto longer = wait_for(waiting_, 2, p.keys, 200);
  fill_and_seal(computing_, 1, slots[0], p, 0);
  finish_everything();
  EXPECT_EQ(cache_->next_deadline_ns(), begin_ns + 100'000'000);
  clock_.advance_ms(99);
  cache_->run_deadlines();
  EXPECT_FALSE(wait->answered());
  clock_.advance_ms(1);
  cache_->run_deadlines();
  EXPECT_EQ(wait->blocks(), 1u);
  EXPECT_FALSE(longer->answered());
  EXPECT_EQ(cache_->stats().expired_waits, 1u);
  EXPECT_EQ(cache_->next_deadline_ns(), begin_ns + 200'000'000);
  // Without a timer of the caller's a tick does it, late.
  tick();
  EXPECT_EQ(longer->blocks(), 1u);
  EXPECT_FALSE(cache_->next_deadline_ns());
  check();
}

TEST_F(SingleFlight, ALimitDoesNotCutOffWhatIsBeingLoaded) {
  const Prompt p = prompt(1, 3);
  put(p, 0, 1);
  finish_everything();
  start({});  // what was durable is on disk only
  computing_ = cache_->open_session();
  waiting_ = cache_->open_session();
  cache_->reserve(computing_, 1, space_, std::span(p.keys).subspan(1), 0);
  const auto wait = wait_for(waiting_, 1, p.keys, 10);
  tick();
  EXPECT_EQ(cache_->stats().expired_waits, 1u);
  EXPECT_FALSE(wait->answered());
  finish_everything();
  EXPECT_EQ(wait->blocks(), 1u);
  check();
}

TEST_F(SingleFlight, AReleaseOfTheReservationEndsTheWaitAtOnce) {
  const Prompt p = prompt(1, 3);
  const auto slots = cache_->reserve(computing_, 1, space_, p.keys, 0);
  const auto wait = wait_for(waiting_, 1, p.keys);
  fill_and_seal(computing_, 1, slots[0], p, 0);
  finish_everything();
  cache_->release(computing_, 1);
  EXPECT_EQ(wait->blocks(), 1u);
  check();
}

TEST_F(SingleFlight, WhateverEndsTheComputingSessionEndsTheWaitAtOnce) {
  const Prompt p = prompt(1, 2);
  const std::vector<std::function<void()>> ends = {
      [&] { cache_->abandon_session(computing_); },
      [&] { cache_->end_session(computing_); },
      [&] { cache_->drain([] {}); },
  };
  LeaseId lease = 1;
  for (const auto& end : ends) {
    computing_ = cache_->open_session();
    cache_->reserve(computing_, 1, space_, p.keys, 0);
    const auto wait = wait_for(waiting_, lease++, p.keys);
    EXPECT_FALSE(wait->answered());
    end();
    EXPECT_EQ(wait->blocks(), 0u);
    check();
  }
  // Nothing is sealed while draining, so nothing is waited for.
  EXPECT_EQ(wait_for(waiting_, lease, p.keys)->blocks(), 0u);
}

TEST_F(SingleFlight, ASlotSealedUnderAnotherKeyEndsTheWaitForItsOwn) {
  const Prompt p = prompt(1, 1), other = prompt(2, 1);
  const auto slots = cache_->reserve(computing_, 1, space_, p.keys, 0);
  const auto wait = wait_for(waiting_, 1, p.keys);
  fill_and_seal(computing_, 1, slots[0], other, 0);
  EXPECT_EQ(wait->blocks(), 0u);
}

TEST_F(SingleFlight, ASlotReservedWithoutItsKeyEndsTheWaitForItToo) {
  const Prompt p = prompt(1, 1);
  cache_->reserve(computing_, 1, space_, p.keys, 0);
  const auto wait = wait_for(waiting_, 1, p.keys);
  const SessionId third = cache_->open_session();
  const auto slots = cache_->reserve(third, 1, space_, {}, 1);
  fill_and_seal(third, 1, slots[0], p, 0);
  finish_everything();
  EXPECT_EQ(wait->blocks(), 1u);
}

TEST_F(SingleFlight, WhatWasSealedInVainIsNotPendingAnyMore) {
  const Prompt p = prompt(1, 2);
  put(p, 0, 1);
  const auto slots = cache_->reserve(computing_, 1, space_, p.keys, 0);
  const auto wait = wait_for(waiting_, 1, p.keys);
  EXPECT_EQ(cache_->stats().pending_blocks, 2u);
  EXPECT_EQ(seal_one(computing_, 1, slots[0], p, 0)[0], SealOutcome::duplicate);
  EXPECT_EQ(cache_->stats().pending_blocks, 1u);
  SealRequest orphan;
  orphan.slot = slots[1];
  orphan.parent = prompt(2, 1).keys[0];
  orphan.tokens = p.block(1);
  EXPECT_EQ(cache_->seal(computing_, 1, {&orphan, 1})[0], SealOutcome::invalid);
  finish_everything();
  EXPECT_EQ(wait->blocks(), 1u);
  EXPECT_EQ(cache_->stats().pending_blocks, 0u);
  check();
}

TEST_F(SingleFlight, WhileAnotherSessionComputesItAsWellTheWaitGoesOn) {
  const Prompt p = prompt(1, 1);
  cache_->reserve(computing_, 1, space_, p.keys, 0);
  const SessionId third = cache_->open_session();
  const auto slots = cache_->reserve(third, 1, space_, p.keys, 0);
  const auto wait = wait_for(waiting_, 1, p.keys);
  cache_->end_session(computing_);
  EXPECT_FALSE(wait->answered());
  fill_and_seal(third, 1, slots[0], p, 0);
  finish_everything();
  EXPECT_EQ(wait->blocks(), 1u);
}

TEST_F(SingleFlight, NobodyWaitsForThemselves) {
  const Prompt p = prompt(1, 2);
  cache_->reserve(waiting_, 1, space_, p.keys, 0);
  EXPECT_EQ(wait_for(waiting_, 1, p.keys)->blocks(), 0u);
  EXPECT_EQ(wait_for(waiting_, 2, p.keys)->blocks(), 0u);
}

TEST_F(SingleFlight, AReleaseOfTheWaitersLeaseForgetsTheWait) {
  const Prompt p = prompt(1, 2);
  const auto slots = cache_->reserve(computing_, 1, space_, p.keys, 0);
  const auto wait = wait_for(waiting_, 1, p.keys);
  cache_->release(waiting_, 1);
  EXPECT_EQ(cache_->stats().waiting_acquires, 0u);
  EXPECT_FALSE(cache_->next_deadline_ns());
  fill_and_seal(computing_, 1, slots[0], p, 0);
  tick();
  EXPECT_FALSE(wait->answered());
  const auto again = wait_for(waiting_, 2, p.keys);
  cache_->abandon_session(waiting_);
  tick();
  EXPECT_FALSE(again->answered());
  check();
}

TEST_F(SingleFlight, AKeyThatNobodyReservedEndsTheWait) {
  const Prompt p = prompt(1, 3);
  const auto slots = cache_->reserve(computing_, 1, space_, p.first(2), 0);
  const auto wait = wait_for(waiting_, 1, p.keys);
  fill_and_seal(computing_, 1, slots[0], p, 0);
  fill_and_seal(computing_, 1, slots[1], p, 1);
  finish_everything();
  EXPECT_EQ(wait->blocks(), 2u);
}

TEST_F(SingleFlight, ABlockThatIsWrongCutsTheWait) {
  const Prompt p = prompt(1, 3);
  const auto slots = cache_->reserve(computing_, 1, space_, p.keys, 0);
  const auto wait = wait_for(waiting_, 1, p.keys);
  fill_and_seal(computing_, 1, slots[0], p, 0);
  slot_bytes(slots[0])[0] ^= std::byte{1};
  while (accelerator_.under_way() > 0) finish_copy();
  EXPECT_EQ(wait->blocks(), 0u);
  EXPECT_EQ(cache_->stats().waiting_acquires, 0u);
  check();
}

TEST_F(SingleFlight, OfTwoThatMissTheSameOneClaims) {
  const Prompt p = prompt(1, 3);
  const auto slots = cache_->claim(computing_, 1, space_, p.keys, 1);
  ASSERT_TRUE(slots);
  EXPECT_EQ(slots->size(), 4u);
  EXPECT_FALSE(cache_->claim(waiting_, 1, space_, p.keys, 1));
  EXPECT_EQ(cache_->stats().reserved_slots, 4u);
  EXPECT_EQ(cache_->stats().pending_blocks, 3u);
  fill_and_seal(computing_, 1, (*slots)[0], p, 0);
  EXPECT_FALSE(cache_->claim(waiting_, 1, space_, p.keys, 0)) << "it has been sealed";
  // The others of it are computed, by the same session as before.
  EXPECT_FALSE(cache_->claim(waiting_, 1, space_, std::span(p.keys).subspan(1), 0));
  EXPECT_TRUE(cache_->claim(computing_, 2, space_, std::span(p.keys).subspan(1), 0));
  check();
}

TEST_F(SingleFlight, WhenTheComputingOneGoesOneOfItsWaitersTakesOverAndTheOthersWaitOn) {
  const Prompt p = prompt(1, 2);
  const SessionId third = cache_->open_session();
  cache_->reserve(computing_, 1, space_, p.keys, 0);
  const auto one = wait_for(waiting_, 1, p.keys), other = wait_for(third, 1, p.keys);
  cache_->end_session(computing_);
  EXPECT_EQ(one->blocks(), 0u);
  EXPECT_EQ(other->blocks(), 0u);
  const auto slots = cache_->claim(waiting_, 2, space_, p.keys, 0);
  ASSERT_TRUE(slots);
  EXPECT_FALSE(cache_->claim(third, 2, space_, p.keys, 0));
  const auto again = wait_for(third, 3, p.keys);
  for (std::size_t i = 0; i < 2; ++i) fill_and_seal(waiting_, 2, (*slots)[i], p, i);
  finish_everything();
  EXPECT_EQ(again->blocks(), 2u);
}

TEST_F(SingleFlight, ACallbackMayCallTheCache) {
  const Prompt p = prompt(1, 2);
  cache_->reserve(computing_, 1, space_, p.keys, 0);
  std::size_t claimed = 0;
  cache_->acquire(waiting_, 1, space_, p.keys, {.wait_ms = 10}, [&](auto) {
    cache_->release(waiting_, 1);
    if (const auto slots = cache_->claim(waiting_, 2, space_, p.keys, 0)) claimed = slots->size();
  });
  cache_->end_session(computing_);
  EXPECT_EQ(claimed, 2u);
  check();
}

// The first tokens of a block are worth as much less as they are fewer.
TEST_F(SingleFlight, AFewTokensOfABlockAreNotLoadedWhereComputingThemIsFaster) {
  const Prompt p = prompt(1, 2);
  put(p, 0, 2);
  finish_everything();
  start({});
  const SessionId session = cache_->open_session();
  const auto load = [&](LeaseId lease, std::span<const BlockKey> keys,
                        const AcquireOptions& options) {
    std::size_t got = SIZE_MAX;
    cache_->acquire(session, lease, space_, keys, options,
                    [&](auto blocks) { got = blocks.size(); });
    clock_.advance_ms(10);
    finish_everything();
    return got;
  };
  // The disk takes 10 ms a block.
  EXPECT_EQ(load(1, p.first(1), {}), 1u);
  const auto second = std::span(p.keys).subspan(1);
  // Computing a token takes 5 ms: 4 of them 20 ms, one of them 5.
  EXPECT_EQ(load(2, second, {.prefill_tokens_per_second = 200, .partial_tokens = 1}), 0u);
  EXPECT_EQ(cache_->stats().declined_loads, 1u);
  EXPECT_EQ(load(3, second, {.prefill_tokens_per_second = 200}), 1u);
  check();
}

TEST_F(SingleFlight, ThePartialBlockOfAMatchIsAcquiredLikeAnyOther) {
  const Prompt stored = prompt(1, 2, 0, 1), asked = prompt(1, 2, 9, 1);
  put(stored, 0, 2);
  finish_everything();
  start({});
  std::vector<Token> tokens = asked.tokens;
  std::ranges::copy_n(stored.tokens.begin() + test_block_tokens, 3,
                      tokens.begin() + test_block_tokens);
  const MatchResult match = cache_->match(space_, asked.first(1), tokens);
  ASSERT_EQ(match.matched_blocks, 1u);
  EXPECT_EQ(match.partial_tokens, 3u);
  EXPECT_EQ(match.partial_key, stored.keys[1]);
  EXPECT_EQ(match.partial_tier, Tier::disk);
  const std::vector<BlockKey> keys = {asked.keys[0], match.partial_key};
  const SessionId session = cache_->open_session();
  const auto got = get(session, 1, keys, {.partial_tokens = match.partial_tokens});
  ASSERT_EQ(got.size(), 2u);
  EXPECT_EQ(got[1].from, Tier::disk);
  check();
}

}  // namespace
}  // namespace terrace::storage
