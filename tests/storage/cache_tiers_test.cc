// Blocks on their way down and up.
#include <algorithm>

#include "core/checksum.h"
#include "tests/storage/support/cache_fixture.h"

namespace terrace::storage {
namespace {

class CacheTiers : public CacheFixture {};

TEST_F(CacheTiers, SealedBlocksAreWrittenBehindHeadsFirst) {
  start({});
  const Prompt p = prompt(1, 4);
  put(p, 0, 4);
  ASSERT_EQ(disk_->under_way().size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(disk_->under_way()[i].key(), p.keys[i]);
  finish_everything();
  EXPECT_EQ(stats(Tier::disk).blocks, 4u);
  EXPECT_EQ(stats(Tier::device).demotions, 4u);
  EXPECT_EQ(on_disk_.records.size(), 4u);
  check();
}

TEST_F(CacheTiers, WritesUnderWayAreBounded) {
  start({.device_blocks = 160, .disk_blocks = 160});
  put(prompt(1, 140), 0, 140);
  EXPECT_EQ(disk_->under_way().size(), 128u);
  EXPECT_EQ(cache_->drain_blocks_left(), 140u);
  finish_everything();
  EXPECT_EQ(stats(Tier::disk).blocks, 140u);
}

TEST_F(CacheTiers, ACopyWithALowerCopyIsDroppedWithoutIo) {
  start({.device_blocks = 4});
  const Prompt a = prompt(1, 4), b = prompt(2, 4);
  put(a, 0, 4);
  finish_everything();
  const std::size_t writes = disk_->writes();
  EXPECT_EQ(put(b, 0, 4), 4u);
  EXPECT_EQ(states(a), std::vector<BlockState>(4, BlockState::disk));
  EXPECT_EQ(disk_->writes() - writes, 4u);  // those of b
  check();
}

TEST_F(CacheTiers, WhatIsNotWrittenYetIsNotDropped) {
  start({.device_blocks = 4});
  const Prompt a = prompt(1, 4), b = prompt(2, 4);
  put(a, 0, 4);
  EXPECT_EQ(put(b, 0, 4), 0u);
  finish_disk(3);  // the tail: its ancestors are still dirty, it may go
  EXPECT_EQ(put(b, 0, 1), 1u);
  EXPECT_EQ(put(b, 1, 1), 0u);
  finish_everything();
  EXPECT_EQ(put(b, 1, 3), 3u);
  EXPECT_EQ(states(a), std::vector<BlockState>(4, BlockState::disk));
  check();
}

TEST_F(CacheTiers, BlocksOnDiskArePromotedAndSayWhereTheyWere) {
  start({.device_blocks = 4});
  const Prompt a = prompt(1, 3);
  put(a, 0, 3);
  finish_everything();
  put(prompt(2, 3), 0, 3);
  finish_everything();
  EXPECT_EQ(states(a),
            (std::vector<BlockState>{BlockState::device, BlockState::disk, BlockState::disk}));
  const SessionId session = cache_->open_session();
  const auto got = get(session, 1, a.keys);
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[0].from, Tier::device);
  EXPECT_EQ(got[1].from, Tier::disk);
  EXPECT_EQ(got[2].from, Tier::disk);
  EXPECT_EQ(stats(Tier::disk).hits, 2u);
  EXPECT_EQ(stats(Tier::disk).promotions, 2u);
  EXPECT_EQ(states(a), std::vector<BlockState>(3, BlockState::device));
  check();
}

TEST_F(CacheTiers, TwoAcquiresOfALoadingBlockShareOneLoad) {
  start({.device_blocks = 4});
  const Prompt a = prompt(1, 2);
  put(a, 0, 2);
  finish_everything();
  put(prompt(2, 4), 0, 4);
  finish_everything();
  const SessionId one = cache_->open_session(), two = cache_->open_session();
  int done = 0;
  std::vector<AcquiredBlock> first, second;
  cache_->acquire(one, 1, space_, a.keys, {}, [&](auto got) { ++done, first = got; });
  cache_->acquire(two, 1, space_, a.keys, {}, [&](auto got) { ++done, second = got; });
  EXPECT_EQ(done, 0);
  EXPECT_EQ(disk_->under_way().size(), 2u);
  finish_everything();
  EXPECT_EQ(done, 2);
  ASSERT_EQ(first.size(), 2u);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(first[1].slot, second[1].slot);
  EXPECT_EQ(second[1].from, Tier::disk);
  EXPECT_TRUE(holds(first[1].slot, a.keys[1]));
  // Each has its own hold.
  cache_->end_session(one);
  EXPECT_EQ(put(prompt(3, 4), 0, 4), 2u);
  EXPECT_TRUE(holds(second[1].slot, a.keys[1]));
  check();
}

TEST_F(CacheTiers, ASlotThatIsBeingFilledIsNotUsedAgainBeforeTheLoadIsOver) {
  start({.device_blocks = 2});
  const Prompt a = prompt(1, 2), b = prompt(2, 2);
  put(a, 0, 2);
  finish_everything();
  put(b, 0, 2);
  finish_everything();
  const SessionId session = cache_->open_session();
  bool called = false;
  cache_->acquire(session, 1, space_, a.keys, {}, [&](auto) { called = true; });
  ASSERT_EQ(disk_->under_way().size(), 2u);
  cache_->end_session(session);
  EXPECT_EQ(put(prompt(3, 2), 0, 2), 0u);
  finish_everything();
  EXPECT_FALSE(called);
  EXPECT_EQ(get(a.keys), 2u);
  EXPECT_EQ(put(prompt(3, 2), 0, 2), 2u);
  check();
}

TEST_F(CacheTiers, ACopyIsNotUsedAgainWhileItIsBeingWritten) {
  start({.device_blocks = 2, .disk_blocks = 8});
  const Prompt a = prompt(1, 2), b = prompt(2, 2);
  put(a, 0, 2);
  put(b, 0, 2);
  finish_everything();
  for (const auto& [key, record] : on_disk_.records) EXPECT_EQ(record.payload, contents(key));
  check();
}

TEST_F(CacheTiers, AcquireHoldsWhatFitsAndLeavesTheRest) {
  start({.device_blocks = 4});
  const Prompt a = prompt(1, 4);
  put(a, 0, 4);
  finish_everything();
  put(prompt(2, 4), 0, 4);
  finish_everything();
  const SessionId session = cache_->open_session();
  ASSERT_EQ(cache_->reserve(session, 1, space_, {}, 2).size(), 2u);
  EXPECT_EQ(get(session, 2, a.keys).size(), 2u);
  check();
}

TEST_F(CacheTiers, DeviceBlocksAreDemotedToHostAheadOfNeed) {
  start({.device_blocks = 8,
         .host_blocks = 16,
         .disk_blocks = 0,
         .clean_fraction = 0.5,
         .eviction = EvictionOrder::lru});
  const Prompt a = prompt(1, 8), b = prompt(2, 8);
  put(a, 0, 8);
  finish_everything();
  // Half of the slots can be had without a copy, the tail of the prefix first.
  EXPECT_GE(stats(Tier::host).blocks, 4u);
  EXPECT_EQ(stats(Tier::host).blocks, accelerator_.copies());
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(put(b, 2 * i, 2), 2u);
    finish_everything();
  }
  EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 8u);
  EXPECT_EQ(states(a)[2], BlockState::host);
  check();
  const SessionId session = cache_->open_session();
  const auto got = get(session, 1, a.first(3));
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[2].from, Tier::host);
  EXPECT_GE(stats(Tier::host).hits, 2u);
  EXPECT_EQ(stats(Tier::host).hits, stats(Tier::host).promotions);
  check();
}

TEST_F(CacheTiers, TheTailLeavesTheHostBeforeTheHead) {
  start({.device_blocks = 4, .host_blocks = 6, .disk_blocks = 0, .clean_fraction = 0.5});
  const Prompt a = prompt(1, 6), b = prompt(2, 8);
  for (std::size_t i = 0; i < 6; ++i, finish_everything()) EXPECT_EQ(put(a, i, 1), 1u);
  for (std::size_t i = 0; i < 8; ++i, finish_everything()) {
    EXPECT_EQ(put(b, i, 1), 1u);
    const auto now = states(a);
    // Nothing behind what is gone.
    EXPECT_TRUE(std::ranges::is_partitioned(now, is_present)) << "after block " << i;
    check();
  }
  EXPECT_LE(stats(Tier::host).used_bytes, 6 * test_block_bytes);
  EXPECT_EQ(cache_->match(space_, b.keys, {}).matched_blocks, 8u);
}

TEST_F(CacheTiers, AHostCopyGoesToDiskWhenTheDeviceCopyIsGone) {
  start({.device_blocks = 4, .host_blocks = 8, .clean_fraction = 1});
  const Prompt a = prompt(1, 2);
  put(a, 0, 2);
  // Demoted while the disk fails.
  finish_disk(0, Status(StatusCode::io_error, "told to fail"));
  finish_disk(0, Status(StatusCode::io_error, "told to fail"));
  while (accelerator_.under_way() > 0) finish_copy();
  put(prompt(2, 4), 0, 4);
  EXPECT_EQ(states(a), std::vector<BlockState>(2, BlockState::host));
  tick(60'000);
  finish_everything();
  EXPECT_TRUE(on_disk_.records.contains(a.keys[0]));
  EXPECT_TRUE(on_disk_.records.contains(a.keys[1]));
  check();
}

TEST_F(CacheTiers, AFullDiskEvictsItsLeastUsedTails) {
  start({.device_blocks = 4, .disk_blocks = 6});
  const Prompt a = prompt(1, 4), b = prompt(2, 4);
  put(a, 0, 4);
  finish_everything();
  clock_.advance_ms(10);
  put(b, 0, 4);
  finish_everything();
  EXPECT_EQ(on_disk_.records.size(), 6u);
  EXPECT_EQ(states(a), (std::vector<BlockState>{BlockState::disk, BlockState::disk,
                                                BlockState::absent, BlockState::absent}));
  EXPECT_LE(on_disk_.used_bytes(), on_disk_.capacity_bytes);
  EXPECT_EQ(stats(Tier::disk).evictions, 2u);
  check();
}

TEST_F(CacheTiers, NoSpaceEvictsAndTriesAgain) {
  start({.device_blocks = 8, .disk_blocks = 8});
  const Prompt a = prompt(1, 4), b = prompt(2, 1);
  put(a, 0, 4);
  finish_everything();
  put(b, 0, 1);
  finish_disk(0, Status(StatusCode::no_space, "fragmented"));
  EXPECT_EQ(disk_->under_way().size(), 1u);  // asked again
  EXPECT_FALSE(on_disk_.records.contains(a.keys[3]));
  finish_everything();
  EXPECT_TRUE(on_disk_.records.contains(b.keys[0]));
  EXPECT_TRUE(on_disk_.records.contains(a.keys[0]));
  check();
}

TEST_F(CacheTiers, ADiskThatAlwaysSaysNoSpaceIsLeftAloneAndNotEmptied) {
  start({.device_blocks = 16, .disk_blocks = 400});
  for (int i = 1; i <= 25; ++i) {
    put(prompt(i, 12), 0, 12);
    finish_everything();
    clock_.advance_ms(1);
  }
  ASSERT_EQ(on_disk_.records.size(), 300u);
  const Prompt b = prompt(99, 1);
  put(b, 0, 1);
  int answers = 0;
  for (; answers < 100 && !disk_->under_way().empty(); ++answers)
    finish_disk(0, Status(StatusCode::no_space, "the file system is full"));
  EXPECT_LT(answers, 20);
  EXPECT_GT(on_disk_.records.size(), 200u);
  tick(60'000);
  finish_everything();
  EXPECT_TRUE(on_disk_.records.contains(b.keys[0]));
  check();
}

TEST_F(CacheTiers, ADiskSmallerThanTheDeviceIsNotWrittenOverAndOver) {
  start({.device_blocks = 32, .disk_blocks = 4});
  for (int i = 0; i < 4; ++i) {
    put(prompt(i, 4), 0, 4);
    finish_everything();
    clock_.advance_ms(10);
  }
  const std::size_t writes = disk_->writes();
  EXPECT_LE(writes, 16u);
  for (int i = 0; i < 100; ++i) {
    tick();
    finish_everything();
  }
  EXPECT_EQ(disk_->writes(), writes);
  // And what the disk had no room for does not hold the device for ever.
  EXPECT_EQ(put(prompt(50, 30), 0, 30), 30u);
  finish_everything();
  check();
}

TEST_F(CacheTiers, APrefixLongerThanTheDiskKeepsItsHeadThere) {
  start({.device_blocks = 16, .disk_blocks = 5});
  const Prompt a = prompt(1, 9);
  put(a, 0, 9);
  finish_everything();
  for (std::size_t i = 0; i < 9; ++i)
    EXPECT_EQ(on_disk_.records.contains(a.keys[i]), i < 5) << "block " << i;
  EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 9u);
  check();
}

TEST_F(CacheTiers, RecencyReachesTheDiskWithinASecond) {
  start({});
  const Prompt a = prompt(1, 2);
  put(a, 0, 2);
  finish_everything();
  const std::uint64_t written = on_disk_.records.at(a.keys[0]).recency;
  clock_.advance_ms(5000);
  EXPECT_EQ(get(a.keys), 2u);
  for (int i = 0; i < 10; ++i) tick(100);
  EXPECT_GT(on_disk_.records.at(a.keys[0]).recency, written);
  EXPECT_GT(on_disk_.records.at(a.keys[1]).recency, written);
  // In one batch, not one call a block.
  EXPECT_EQ(disk_->touches(), 1u);
}

TEST_F(CacheTiers, LoadsThatTakeLongerThanComputingAreLeftOut) {
  start({.device_blocks = 4});
  const Prompt a = prompt(1, 4), b = prompt(2, 4);
  put(a, 0, 4);
  finish_everything();
  put(b, 0, 4);
  finish_everything();
  ASSERT_EQ(states(a), std::vector<BlockState>(4, BlockState::disk));
  const auto acquire = [&](const Prompt& p, double tokens_per_second, std::int64_t takes_ms) {
    const SessionId session = cache_->open_session();
    std::size_t got = 0;
    cache_->acquire(session, 1, space_, p.keys, {.prefill_tokens_per_second = tokens_per_second},
                    [&](auto blocks) { got = blocks.size(); });
    clock_.advance_ms(takes_ms);
    finish_everything();
    cache_->end_session(session);
    return got;
  };
  // Nothing was measured yet: loaded, at 100 ms a block.
  EXPECT_EQ(acquire(a, 1000, 400), 4u);
  ASSERT_EQ(states(b), std::vector<BlockState>(4, BlockState::disk));
  EXPECT_NEAR(static_cast<double>(cache_->match(space_, b.keys, {}).load_ns), 4e8, 1e6);
  // Computing takes 4 ms a block.
  EXPECT_EQ(acquire(b, 1000, 0), 0u);
  EXPECT_EQ(cache_->stats().declined_loads, 4u);
  // What is in the device tier costs nothing and is never left out.
  EXPECT_EQ(acquire(a, 1000, 0), 4u);
  // A slower worker is better off with the disk.
  EXPECT_EQ(acquire(b, 10, 400), 4u);
  // A measurement is not believed for ever.
  clock_.advance_ms(60'000);
  EXPECT_EQ(acquire(a, 1000, 0), 4u);
  check();
}

TEST_F(CacheTiers, DrainWritesTheRestAndAcceptsNothingMore) {
  start({.device_blocks = 200, .disk_blocks = 200});
  const Prompt cold = prompt(1, 140), hot = prompt(2, 20);
  put(cold, 0, 140);
  clock_.advance_ms(10);
  put(hot, 0, 20);
  const SessionId session = cache_->open_session();
  const auto slots = cache_->reserve(session, 1, space_, prompt(3, 1).keys, 0);
  bool done = false;
  cache_->drain([&] { done = true; });
  EXPECT_EQ(cache_->drain_blocks_left(), 160u);
  EXPECT_TRUE(cache_->reserve(session, 1, space_, prompt(4, 1).keys, 0).empty());
  EXPECT_EQ(seal_one(session, 1, slots[0], prompt(3, 1), 0)[0], SealOutcome::invalid);
  // 128 writes were under way; then the most recently used come first, heads before tails.
  for (int i = 0; i < 128; ++i) finish_disk();
  ASSERT_FALSE(disk_->under_way().empty());
  EXPECT_EQ(disk_->under_way()[0].key(), hot.keys[0]);
  EXPECT_EQ(disk_->under_way()[1].key(), hot.keys[1]);
  EXPECT_FALSE(done);
  while (cache_->drain_blocks_left() > 0) finish_disk();
  EXPECT_FALSE(done);  // durable only after the flush
  tick();
  finish_everything();
  EXPECT_TRUE(done);
  EXPECT_EQ(on_disk_.records.size(), 160u);
}

TEST_F(CacheTiers, DrainGoesOnAfterFailures) {
  start({});
  const Prompt a = prompt(1, 3);
  put(a, 0, 3);
  bool done = false;
  cache_->drain([&] { done = true; });
  for (int i = 0; i < 5; ++i) {
    while (!disk_->under_way().empty()) finish_disk(0, Status(StatusCode::io_error, "told to"));
    EXPECT_FALSE(done);
    tick(60'000);
  }
  for (int i = 0; i < 10; ++i) {
    finish_everything();
    tick(60'000);
  }
  EXPECT_TRUE(done);
  EXPECT_EQ(on_disk_.records.size(), 3u);
}

TEST_F(CacheTiers, DrainWithoutADiskIsDoneAtOnce) {
  start({.disk_blocks = 0});
  bool done = false;
  cache_->drain([&] { done = true; });
  EXPECT_TRUE(done);
}

TEST_F(CacheTiers, ABlockLargerThanTheDiskEvictsNothingThere) {
  constexpr std::uint64_t large = 8 * test_block_bytes;
  start({.device_blocks = 32, .disk_blocks = 3, .slab_blocks = 16});
  put(prompt(1, 2), 0, 2);
  finish_everything();
  ASSERT_EQ(on_disk_.records.size(), 2u);
  const auto space = cache_->open_space(descriptor("large", large));
  ASSERT_TRUE(space);
  const SessionId session = cache_->open_session();
  const auto slots = cache_->reserve(session, 1, *space, {}, 1);
  ASSERT_EQ(slots.size(), 1u);
  SealRequest request;
  request.slot = slots[0];
  request.parent = descriptor("large", large).digest();
  request.tokens = {1, 2, 3, 4};
  request.checksum = payload_checksum(slot_bytes(slots[0], large));
  ASSERT_EQ(cache_->seal(session, 1, std::span(&request, 1))[0], SealOutcome::sealed);
  finish_everything();
  EXPECT_EQ(on_disk_.records.size(), 2u);
  check();
}

TEST_F(CacheTiers, WhatTheDiskRecoveredIsKnownAtOnce) {
  start({});
  const Prompt a = prompt(1, 5);
  put(a, 0, 5);
  finish_everything();
  start({});
  EXPECT_EQ(states(a), std::vector<BlockState>(5, BlockState::disk));
  EXPECT_EQ(cache_->spaces().size(), 1u);
  EXPECT_EQ(get(a.keys), 5u);
  check();
}

TEST_F(CacheTiers, ASpaceWithoutBlocksIsForgottenAtARestartAndCanBeOpenedAgain) {
  start({});
  ASSERT_TRUE(cache_->open_space(descriptor("other")));
  put(prompt(1, 1), 0, 1);
  finish_everything();
  start({});
  EXPECT_EQ(cache_->spaces().size(), 1u);
  EXPECT_TRUE(cache_->open_space(descriptor("other")));
  EXPECT_EQ(cache_->spaces().size(), 2u);
}

TEST_F(CacheTiers, RecencySurvivesARestart) {
  start({.disk_blocks = 4});
  const Prompt a = prompt(1, 2), b = prompt(2, 2), c = prompt(3, 2);
  put(a, 0, 2);
  clock_.advance_ms(10);
  put(b, 0, 2);
  finish_everything();
  clock_.advance_ms(10);
  EXPECT_EQ(get(a.keys), 2u);
  tick();
  start({.disk_blocks = 4});
  put(c, 0, 2);
  finish_everything();
  EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 2u);
  EXPECT_EQ(cache_->match(space_, b.keys, {}).matched_blocks, 0u);
  check();
}

TEST_F(CacheTiers, RecoveryErasesWhatNoMatchCouldReach) {
  start({});
  const Prompt a = prompt(1, 5), b = prompt(2, 2);
  put(a, 0, 5);
  put(b, 0, 2);
  finish_everything();
  stop();
  on_disk_.records.erase(a.keys[2]);
  // An index whose tokens do not make its key.
  on_disk_.records.at(b.keys[1]).tokens[0] ^= 1;
  start({});
  EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 2u);
  EXPECT_EQ(cache_->match(space_, b.keys, {}).matched_blocks, 1u);
  EXPECT_EQ(on_disk_.records.size(), 3u);
  EXPECT_EQ(cache_->stats().holes, 0u);
  check();
}

TEST_F(CacheTiers, ACapThatBecameSmallerHoldsAfterARestart) {
  start({});
  const Prompt a = prompt(1, 12);
  put(a, 0, 12);
  finish_everything();
  start({.disk_blocks = 5});
  tick();
  EXPECT_LE(on_disk_.used_bytes(), on_disk_.capacity_bytes);
  EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, on_disk_.records.size());
  EXPECT_GE(on_disk_.records.size(), 4u);
  check();
}

TEST_F(CacheTiers, ASealOfABlockThatIsOnlyOnDiskBecomesItsDeviceCopy) {
  start({});
  const Prompt a = prompt(1, 2);
  put(a, 0, 2);
  finish_everything();
  start({});
  const std::size_t writes = disk_->writes();
  EXPECT_EQ(put(a, 0, 2), 2u);
  EXPECT_EQ(states(a), std::vector<BlockState>(2, BlockState::device));
  EXPECT_EQ(disk_->writes(), writes);
  check();
}

TEST_F(CacheTiers, WhatARefusedReservationFoundInItsWayIsWrittenEvenBelowNoMark) {
  start({.device_blocks = 8, .clean_fraction = 0, .disk_write = WritePolicy::on_evict});
  const Prompt a = prompt(1, 8), b = prompt(2, 1);
  EXPECT_EQ(put(a, 0, 8), 8u);
  finish_everything();
  EXPECT_TRUE(on_disk_.records.empty());
  EXPECT_EQ(put(b, 0, 1), 0u);  // never waits
  for (int i = 0; i < 3; ++i) {
    tick();
    finish_everything();
  }
  EXPECT_EQ(put(b, 0, 1), 1u);
  check();
}

TEST_F(CacheTiers, BlocksOfTwoSizesDoNotPushEachOtherOutOfTheHostForEver) {
  // The host has one slab: it serves one size at a time.
  start({.device_blocks = 16, .host_blocks = 4, .clean_fraction = 1});
  const SpaceDescriptor large = descriptor("large", 3 * test_block_bytes);
  const SpaceId space = *cache_->open_space(large);
  SealRequest request;
  request.parent = large.digest();
  request.tokens = prompt(9, 1).block(0);
  const BlockKey key = derive_block_key(request.parent, request.tokens);
  const auto bytes = contents(key, large.block_bytes);
  request.checksum = payload_checksum(bytes);
  const SessionId session = cache_->open_session();
  request.slot = cache_->reserve(session, 1, space, {&key, 1}, 0).at(0);
  std::ranges::copy(bytes, slot_bytes(request.slot, large.block_bytes).begin());
  ASSERT_EQ(cache_->seal(session, 1, {&request, 1})[0], SealOutcome::sealed);
  clock_.advance_ms(1000);
  const SessionId other = cache_->open_session();
  for (int head = 1; head <= 3; ++head) put(other, 1, prompt(head, 1), 0, 1);
  while (!disk_->under_way().empty()) finish_disk();
  cache_->end_session(other);    // what is small is copied down at the same time,
  cache_->end_session(session);  // and the large one, the least recent, wants its place
  int copies = 0;
  for (; copies < 1000 && accelerator_.under_way() > 0; ++copies) finish_copy();
  EXPECT_LT(copies, 1000);
  check();
}

}  // namespace
}  // namespace terrace::storage
