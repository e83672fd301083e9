// Matching, leases and sealing, with the device tier alone or with a disk that has nothing to do.
#include <algorithm>

#include "core/checksum.h"
#include "tests/storage/support/cache_fixture.h"

namespace terrace::storage {
namespace {

class CacheLease : public CacheFixture {};

TEST_F(CacheLease, WhatIsSealedIsMatchedAndAcquired) {
  start({});
  const Prompt p = prompt(1, 4);
  EXPECT_EQ(put(p, 0, 3), 3u);
  const MatchResult match = cache_->match(space_, p.keys, {});
  EXPECT_EQ(match.matched_blocks, 3u);
  EXPECT_EQ(match.blocks, (std::vector<BlockState>{BlockState::device, BlockState::device,
                                                   BlockState::device, BlockState::absent}));
  EXPECT_EQ(get(p.keys), 3u);
  EXPECT_EQ(stats(Tier::device).hits, 3u);
  check();
}

TEST_F(CacheLease, AMatchIsNotAUse) {
  start({.device_blocks = 4, .disk_blocks = 0});
  const Prompt a = prompt(1, 2), b = prompt(2, 2), c = prompt(3, 2);
  put(a, 0, 2);
  clock_.advance_ms(10);
  put(b, 0, 2);
  clock_.advance_ms(10);
  const TierStats before = stats(Tier::device);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 2u);
  EXPECT_EQ(stats(Tier::device).hits, before.hits);
  // Room for c is made where it would have been made without those matches.
  EXPECT_EQ(put(c, 0, 2), 2u);
  EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 0u);
  EXPECT_EQ(cache_->match(space_, b.keys, {}).matched_blocks, 2u);
}

TEST_F(CacheLease, AnAcquireIsAUse) {
  start({.device_blocks = 4, .disk_blocks = 0});
  const Prompt a = prompt(1, 2), b = prompt(2, 2), c = prompt(3, 2);
  put(a, 0, 2);
  clock_.advance_ms(10);
  put(b, 0, 2);
  clock_.advance_ms(10);
  EXPECT_EQ(get(a.keys), 2u);
  EXPECT_EQ(put(c, 0, 2), 2u);
  EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 2u);
  EXPECT_EQ(cache_->match(space_, b.keys, {}).matched_blocks, 0u);
}

TEST_F(CacheLease, TheTailOfAPrefixGoesBeforeItsHead) {
  start({.device_blocks = 6, .disk_blocks = 0});
  const Prompt a = prompt(1, 4), b = prompt(2, 4);
  put(a, 0, 4);
  clock_.advance_ms(10);
  put(b, 0, 1);
  put(b, 1, 1);
  put(b, 2, 1);
  EXPECT_EQ(states(a), (std::vector<BlockState>{BlockState::device, BlockState::device,
                                                BlockState::device, BlockState::absent}));
  put(b, 3, 1);
  EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 2u);
  EXPECT_EQ(cache_->match(space_, b.keys, {}).matched_blocks, 4u);
  EXPECT_EQ(stats(Tier::device).evictions, 2u);
  check();
}

TEST_F(CacheLease, AHeadStaysWhileItsTailIsHeld) {
  start({.device_blocks = 4, .disk_blocks = 0});
  const Prompt a = prompt(1, 3), b = prompt(2, 4);
  const SessionId session = cache_->open_session();
  put(session, 1, a, 0, 3);
  // Hold only the tail: a lease of its own on the last key.
  get(session, 2, std::span(a.keys).subspan(2));
  cache_->release(session, 1);
  EXPECT_EQ(put(b, 0, 4), 1u);
  EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 3u);
  cache_->release(session, 2);
  EXPECT_EQ(put(b, 1, 3), 3u);
  EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 0u);
  check();
}

TEST_F(CacheLease, HeldBlocksAreNotEvictedAndReserveNeverWaits) {
  start({.device_blocks = 4, .disk_blocks = 0});
  const Prompt a = prompt(1, 3), b = prompt(2, 4);
  put(a, 0, 3);
  const SessionId session = cache_->open_session();
  EXPECT_EQ(get(session, 1, a.keys).size(), 3u);
  EXPECT_EQ(cache_->reserve(session, 2, space_, b.keys, 2).size(), 1u);
  EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 3u);
  cache_->release(session, 1);
  EXPECT_EQ(cache_->reserve(session, 2, space_, b.keys, 2).size(), 3u);
  EXPECT_EQ(cache_->stats().reserved_slots, 4u);
  cache_->release(session, 2);
  EXPECT_EQ(cache_->stats().reserved_slots, 0u);
  EXPECT_EQ(stats(Tier::device).used_bytes, 0u);
  check();
}

TEST_F(CacheLease, AReservedKeyIsPendingUntilItIsSealedOrReleased) {
  start({});
  const Prompt p = prompt(1, 3);
  const SessionId session = cache_->open_session();
  const auto slots = cache_->reserve(session, 1, space_, p.first(2), 1);
  ASSERT_EQ(slots.size(), 3u);
  EXPECT_EQ(states(p), (std::vector<BlockState>{BlockState::pending, BlockState::pending,
                                                BlockState::absent}));
  EXPECT_EQ(cache_->match(space_, p.keys, {}).matched_blocks, 0u);
  EXPECT_EQ(cache_->stats().pending_blocks, 2u);
  std::ranges::copy(contents(p.keys[0]), slot_bytes(slots[0]).begin());
  EXPECT_EQ(seal_one(session, 1, slots[0], p, 0)[0], SealOutcome::sealed);
  EXPECT_EQ(states(p),
            (std::vector<BlockState>{BlockState::device, BlockState::pending, BlockState::absent}));
  cache_->release(session, 1);
  EXPECT_EQ(states(p),
            (std::vector<BlockState>{BlockState::device, BlockState::absent, BlockState::absent}));
  check();
}

TEST_F(CacheLease, AReserveThatFindsABlockMissingIsAMiss) {
  start({});
  put(prompt(1, 2), 0, 2);
  EXPECT_EQ(stats(Tier::device).misses, 2u);
  EXPECT_EQ(stats(Tier::disk).misses, 2u);
}

TEST_F(CacheLease, SealRefusesWhatIsNotTheLeasesOwn) {
  start({});
  const Prompt p = prompt(1, 3);
  const SessionId session = cache_->open_session(), other = cache_->open_session();
  const auto slots = cache_->reserve(session, 1, space_, p.keys, 0);
  EXPECT_EQ(seal_one(other, 1, slots[0], p, 0)[0], SealOutcome::invalid);
  EXPECT_EQ(seal_one(session, 2, slots[0], p, 0)[0], SealOutcome::invalid);
  EXPECT_EQ(seal_one(session, 1, slots[0] + 64, p, 0)[0], SealOutcome::invalid);
  EXPECT_EQ(seal_one(session, 1, 1ull << 40, p, 0)[0], SealOutcome::invalid);
  // A parent that is not there: no match could ever reach the block.
  EXPECT_EQ(seal_one(session, 1, slots[1], p, 1)[0], SealOutcome::invalid);
  SealRequest short_of_tokens{slots[0], digest_, {1, 2, 3}, 0};
  EXPECT_EQ(cache_->seal(session, 1, std::span(&short_of_tokens, 1))[0], SealOutcome::invalid);
  EXPECT_EQ(seal_one(session, 1, slots[0], p, 0)[0], SealOutcome::sealed);
  // A slot is sealed once.
  EXPECT_EQ(seal_one(session, 1, slots[0], p, 0)[0], SealOutcome::invalid);
  EXPECT_EQ(seal_one(session, 1, slots[1], p, 1)[0], SealOutcome::sealed);
  check();
}

TEST_F(CacheLease, AKeyIsComputedFromTheTokensAndNotBelieved) {
  start({});
  const Prompt wanted = prompt(1, 1), other = prompt(2, 1);
  const SessionId session = cache_->open_session();
  const auto slots = cache_->reserve(session, 1, space_, wanted.keys, 0);
  EXPECT_EQ(seal_one(session, 1, slots[0], other, 0)[0], SealOutcome::sealed);
  EXPECT_EQ(cache_->match(space_, wanted.keys, {}).matched_blocks, 0u);
  EXPECT_EQ(cache_->match(space_, other.keys, {}).matched_blocks, 1u);
  EXPECT_EQ(cache_->stats().pending_blocks, 0u);
}

TEST_F(CacheLease, TheSecondSealOfABlockIsADuplicateAndKeepsItsSlot) {
  start({});
  const Prompt p = prompt(1, 2);
  const SessionId a = cache_->open_session(), b = cache_->open_session();
  const auto slots_a = cache_->reserve(a, 1, space_, p.keys, 0);
  const auto slots_b = cache_->reserve(b, 1, space_, p.keys, 0);
  EXPECT_EQ(seal_one(a, 1, slots_a[0], p, 0)[0], SealOutcome::sealed);
  EXPECT_EQ(seal_one(b, 1, slots_b[0], p, 0)[0], SealOutcome::duplicate);
  EXPECT_EQ(seal_one(b, 1, slots_b[1], p, 1)[0], SealOutcome::sealed);
  EXPECT_EQ(seal_one(a, 1, slots_a[1], p, 1)[0], SealOutcome::duplicate);
  EXPECT_EQ(stats(Tier::device).used_bytes, 4 * test_block_bytes);
  cache_->end_session(a);
  cache_->end_session(b);
  EXPECT_EQ(stats(Tier::device).used_bytes, 2 * test_block_bytes);
  check();
}

TEST_F(CacheLease, SpacesDoNotShareBlocks) {
  start({});
  const Prompt p = prompt(1, 2);
  put(p, 0, 2);
  const SpaceId other = *cache_->open_space(descriptor("another model"));
  EXPECT_NE(other, space_);
  EXPECT_EQ(*cache_->open_space(descriptor()), space_);
  EXPECT_EQ(cache_->match(other, p.keys, p.tokens).matched_blocks, 0u);
  EXPECT_EQ(cache_->match(other, p.keys, p.tokens).partial_tokens, 0u);
  const SessionId session = cache_->open_session();
  std::size_t got = 99;
  cache_->acquire(session, 1, other, p.keys, {}, [&](auto blocks) { got = blocks.size(); });
  EXPECT_EQ(got, 0u);
}

TEST_F(CacheLease, OffersTheLeadingTokensOfABlockWhoseTailDiffers) {
  start({});
  const Prompt p = prompt(1, 3);
  put(p, 0, 3);
  Prompt q = p;
  q.tokens[6] = 77;  // the third token of the second block
  q.keys = derive_block_keys(digest_, q.tokens, test_block_tokens);
  MatchResult match = cache_->match(space_, q.keys, q.tokens);
  EXPECT_EQ(match.matched_blocks, 1u);
  EXPECT_EQ(match.partial_tokens, 2u);
  EXPECT_EQ(match.partial_key, p.keys[1]);
  // Also of a block that the prompt does not fill.
  q.tokens = {p.tokens.begin(), p.tokens.begin() + 7};
  q.keys = derive_block_keys(digest_, q.tokens, test_block_tokens);
  match = cache_->match(space_, q.keys, q.tokens);
  EXPECT_EQ(match.matched_blocks, 1u);
  EXPECT_EQ(match.partial_tokens, 3u);
  EXPECT_EQ(cache_->match(space_, q.keys, {}).partial_tokens, 0u);
}

TEST_F(CacheLease, AnAbandonedSessionKeepsItsSlotsUntilItEnds) {
  start({.device_blocks = 4, .disk_blocks = 0});
  const Prompt a = prompt(1, 2), b = prompt(2, 4);
  const SessionId session = cache_->open_session();
  put(session, 1, a, 0, 2);
  cache_->reserve(session, 2, space_, prompt(3, 1).keys, 0);
  cache_->abandon_session(session);
  EXPECT_EQ(cache_->stats().quarantined_slots, 1u);
  // Nobody will seal it any more.
  EXPECT_EQ(cache_->stats().pending_blocks, 0u);
  const SessionId other = cache_->open_session();
  EXPECT_EQ(cache_->reserve(other, 1, space_, b.keys, 0).size(), 1u);
  // What the dead connection would still ask for is not done.
  EXPECT_TRUE(cache_->reserve(session, 3, space_, b.keys, 0).empty());
  check();
  cache_->end_session(session);
  EXPECT_EQ(cache_->stats().quarantined_slots, 0u);
  EXPECT_EQ(cache_->reserve(other, 1, space_, b.keys, 0).size(), 3u);
  check();
}

TEST_F(CacheLease, ReleasingTwiceOrUnknownThingsDoesNothing) {
  start({});
  const SessionId session = cache_->open_session();
  cache_->release(session, 1);
  cache_->release(999, 1);
  cache_->end_session(999);
  cache_->abandon_session(999);
  put(session, 1, prompt(1, 1), 0, 1);
  cache_->release(session, 1);
  cache_->release(session, 1);
  EXPECT_EQ(cache_->stats().leases, 0u);
  check();
}

TEST_F(CacheLease, ASlabServesAnotherSizeWhenItsBlocksAreGone) {
  start({.device_blocks = 8, .disk_blocks = 0, .slab_blocks = 4});
  put(prompt(1, 8), 0, 8);
  const SpaceId large = *cache_->open_space(descriptor("large", 3 * test_block_bytes));
  const SessionId session = cache_->open_session();
  const auto slots = cache_->reserve(session, 1, large, {}, 2);
  EXPECT_EQ(slots.size(), 2u);
  EXPECT_LE(stats(Tier::device).used_bytes, 8 * test_block_bytes);
  check();
  // And back.
  cache_->end_session(session);
  EXPECT_EQ(put(prompt(2, 8), 0, 8), 8u);
  check();
}

TEST_F(CacheLease, BlocksOfAnotherSizeThatAreHeldStay) {
  start({.device_blocks = 8, .disk_blocks = 0, .slab_blocks = 4});
  const Prompt p = prompt(1, 8);
  put(p, 0, 8);
  const SessionId session = cache_->open_session();
  EXPECT_EQ(get(session, 1, p.keys).size(), 8u);
  const SpaceId large = *cache_->open_space(descriptor("large", 3 * test_block_bytes));
  EXPECT_TRUE(cache_->reserve(session, 2, large, {}, 1).empty());
  EXPECT_EQ(cache_->match(space_, p.keys, {}).matched_blocks, 8u);
  check();
}

TEST_F(CacheLease, ListsBlocksInPages) {
  start({});
  const Prompt p = prompt(1, 5);
  put(p, 0, 5);
  std::vector<BlockKey> listed;
  BlockKey from{};
  for (int pages = 1;; ++pages) {
    const BlockPage page = cache_->list(from, 2);
    for (const BlockInfo& block : page.blocks) {
      listed.push_back(block.key);
      EXPECT_EQ(block.space, digest_);
      EXPECT_EQ(block.bytes, test_block_bytes);
      const auto at =
          static_cast<std::size_t>(std::ranges::find(p.keys, block.key) - p.keys.begin());
      ASSERT_LT(at, 5u);
      EXPECT_EQ(block.depth, at);
      EXPECT_EQ(block.parent, p.parent(at));
      EXPECT_EQ(block.tokens, p.block(at));
      EXPECT_TRUE(block.tiers[0]);
    }
    if (!page.next) {
      EXPECT_EQ(pages, 3);
      break;
    }
    from = *page.next;
  }
  std::vector<BlockKey> expected = p.keys;
  std::ranges::sort(expected);
  EXPECT_EQ(listed, expected);
}

TEST_F(CacheLease, ACallbackMayCallTheCache) {
  start({});
  const Prompt p = prompt(1, 2);
  put(p, 0, 2);
  finish_everything();
  const SessionId session = cache_->open_session();
  std::vector<std::size_t> got;
  cache_->acquire(session, 1, space_, p.keys, {}, [&](auto blocks) {
    got.push_back(blocks.size());
    cache_->release(session, 1);
    cache_->acquire(session, 2, space_, p.first(1), {},
                    [&](auto more) { got.push_back(more.size()); });
  });
  EXPECT_EQ(got, (std::vector<std::size_t>{2, 1}));
  check();
}

}  // namespace
}  // namespace terrace::storage
