// What fails, lies or goes away.
#include <algorithm>

#include "core/checksum.h"
#include "tests/storage/support/cache_fixture.h"

namespace terrace::storage {
namespace {

const Status io_error(StatusCode::io_error, "told to fail");

class CacheFailure : public CacheFixture {
 protected:
  // `a` on disk only.
  Prompt on_disk_only(std::size_t blocks, const Sizes& sizes = {}) {
    start(sizes);
    const Prompt a = prompt(1, blocks);
    put(a, 0, blocks);
    finish_everything();
    start(sizes);
    return a;
  }
};

TEST_F(CacheFailure, ACorruptRecordIsAMissAndACounter) {
  const Prompt a = on_disk_only(4);
  on_disk_.records.at(a.keys[2]).payload[100] ^= std::byte{1};
  EXPECT_EQ(get(a.keys), 2u);
  EXPECT_EQ(stats(Tier::disk).corruptions, 1u);
  EXPECT_EQ(stats(Tier::disk).misses, 1u);
  EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 2u);
  check();
  // It is not asked for again.
  EXPECT_EQ(get(a.keys), 2u);
  EXPECT_EQ(stats(Tier::disk).corruptions, 1u);
}

TEST_F(CacheFailure, AHoleIsHealedBySealingItAgain) {
  const Prompt a = on_disk_only(4);
  on_disk_.records.at(a.keys[1]).payload[0] ^= std::byte{1};
  EXPECT_EQ(get(a.keys), 1u);
  EXPECT_EQ(cache_->stats().holes, 1u);
  check();
  // No child of a hole is accepted.
  Prompt longer = prompt(1, 5);
  EXPECT_EQ(put(longer, 4, 1), 0u);
  EXPECT_EQ(put(a, 1, 1), 1u);
  EXPECT_EQ(cache_->stats().holes, 0u);
  EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 4u);
  finish_everything();
  EXPECT_TRUE(on_disk_.records.contains(a.keys[1]));
  EXPECT_EQ(get(a.keys), 4u);
  check();
}

TEST_F(CacheFailure, AHoleGoesWithTheLastOfItsDescendants) {
  const Prompt a = on_disk_only(3, {.device_blocks = 8, .disk_blocks = 3});
  on_disk_.records.at(a.keys[1]).payload[0] ^= std::byte{1};
  EXPECT_EQ(get(a.first(2)), 1u);
  EXPECT_EQ(cache_->stats().holes, 1u);
  clock_.advance_ms(10);
  put(prompt(2, 2), 0, 2);
  finish_everything();
  EXPECT_FALSE(on_disk_.records.contains(a.keys[2]));
  EXPECT_EQ(cache_->stats().holes, 0u);
  check();
}

TEST_F(CacheFailure, AFailedReadIsAMissButTheBlockStaysKnown) {
  const Prompt a = on_disk_only(3);
  const SessionId session = cache_->open_session();
  std::size_t got = 99;
  cache_->acquire(session, 1, space_, a.keys, {}, [&](auto blocks) { got = blocks.size(); });
  ASSERT_EQ(disk_->under_way().size(), 3u);
  // The last comes first, the middle fails: the leading run is one block.
  finish_disk(2);
  finish_disk(1, io_error);
  EXPECT_EQ(got, 99u);
  finish_disk(0);
  EXPECT_EQ(got, 1u);
  EXPECT_EQ(stats(Tier::disk).failures, 1u);
  check();
  cache_->release(session, 1);
  EXPECT_EQ(get(a.keys), 3u);
  check();
}

TEST_F(CacheFailure, ABlockThatCouldNotBeReadIsWrittenAnewWhenItIsSealedAgain) {
  const Prompt a = on_disk_only(2);
  const SessionId session = cache_->open_session();
  cache_->acquire(session, 1, space_, a.first(1), {}, [](auto) {});
  finish_disk(0, io_error);
  cache_->end_session(session);
  EXPECT_EQ(put(a, 0, 1), 1u);
  check();
  EXPECT_FALSE(on_disk_.records.contains(a.keys[0]));
  finish_everything();
  EXPECT_EQ(disk_->writes(), 1u);
  EXPECT_TRUE(on_disk_.records.contains(a.keys[0]));
  EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 2u);
  check();
}

TEST_F(CacheFailure, ABlockThatTheDiskLostIsAMiss) {
  const Prompt a = on_disk_only(2);
  on_disk_.records.erase(a.keys[1]);
  EXPECT_EQ(get(a.keys), 1u);
  EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 1u);
  check();
}

TEST_F(CacheFailure, AFailedWriteLosesNothingAndIsTriedAgain) {
  start({.device_blocks = 8});
  const Prompt a = prompt(1, 2);
  put(a, 0, 2);
  finish_disk(0, io_error);
  EXPECT_EQ(stats(Tier::disk).failures, 1u);
  EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 2u);
  finish_everything();
  EXPECT_FALSE(on_disk_.records.contains(a.keys[0]));  // not at once
  tick(200);
  finish_everything();
  EXPECT_TRUE(on_disk_.records.contains(a.keys[0]));
  EXPECT_TRUE(on_disk_.records.contains(a.keys[1]));
  check();
}

TEST_F(CacheFailure, ADiskThatFailsForLongIsNeverGivenUpAndDoesNotBlockTheDevice) {
  start({.device_blocks = 4});
  const auto fail_all = [&] {
    cache_->run_completions();
    while (!disk_->under_way().empty()) finish_disk(0, io_error);
  };
  put(prompt(1, 4), 0, 4);
  for (int i = 0; i < 5; ++i) {
    fail_all();
    tick(60'000);
  }
  fail_all();
  // There is nothing to wait for: new prefixes take the place of old ones.
  const Prompt b = prompt(2, 4);
  EXPECT_EQ(put(b, 0, 4), 4u);
  EXPECT_EQ(get(b.keys), 4u);
  check();
  tick(60'000);
  finish_everything();
  for (int i = 0; i < 3; ++i, finish_everything()) tick(60'000);
  EXPECT_EQ(on_disk_.records.size(), 4u);
  EXPECT_TRUE(on_disk_.records.contains(b.keys[3]));
  // Healthy again: what is not written yet stays.
  const Prompt c = prompt(3, 4);
  EXPECT_EQ(put(c, 0, 4), 4u);
  EXPECT_EQ(put(prompt(4, 4), 0, 4), 0u);
  check();
}

TEST_F(CacheFailure, AFailedDemotionToHostLosesNothing) {
  start({.device_blocks = 4, .host_blocks = 8, .disk_blocks = 0, .clean_fraction = 1});
  const Prompt a = prompt(1, 4);
  put(a, 0, 4);
  ASSERT_GT(accelerator_.under_way(), 0u);
  finish_copy(0, ManualAccelerator::Fate::fails);
  EXPECT_EQ(stats(Tier::device).failures, 1u);
  EXPECT_EQ(get(a.keys), 4u);
  tick(60'000);
  finish_everything();
  EXPECT_GT(stats(Tier::host).blocks, 0u);
  check();
}

TEST_F(CacheFailure, AHostCopyThatDoesNotVerifyIsDroppedAndTheDiskAskedInstead) {
  start({.device_blocks = 4, .host_blocks = 8, .clean_fraction = 1});
  const Prompt a = prompt(1, 2);
  put(a, 0, 2);
  finish_everything();
  put(prompt(2, 4), 0, 4);
  finish_everything();
  ASSERT_EQ(states(a), std::vector<BlockState>(2, BlockState::host));
  const SessionId session = cache_->open_session();
  std::vector<AcquiredBlock> got;
  cache_->acquire(session, 1, space_, a.keys, {}, [&](auto blocks) { got = std::move(blocks); });
  finish_copy(0, ManualAccelerator::Fate::flips_a_bit);
  finish_everything();
  EXPECT_EQ(stats(Tier::host).corruptions, 1u);
  ASSERT_EQ(got.size(), 2u);
  EXPECT_TRUE(holds(got[0].slot, a.keys[0]));
  EXPECT_EQ(stats(Tier::disk).promotions, 1u);
  check();
}

TEST_F(CacheFailure, AHostCopyThatDoesNotVerifyIsAMissWithoutADisk) {
  start({.device_blocks = 4, .host_blocks = 8, .disk_blocks = 0, .clean_fraction = 1});
  const Prompt a = prompt(1, 2);
  put(a, 0, 2);
  finish_everything();
  put(prompt(2, 4), 0, 4);
  finish_everything();
  ASSERT_EQ(states(a), std::vector<BlockState>(2, BlockState::host));
  const SessionId session = cache_->open_session();
  std::size_t got = 99;
  cache_->acquire(session, 1, space_, a.keys, {}, [&](auto blocks) { got = blocks.size(); });
  finish_copy(1, ManualAccelerator::Fate::flips_a_bit);
  finish_everything();
  EXPECT_EQ(got, 1u);
  EXPECT_EQ(stats(Tier::host).corruptions, 1u);
  EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 1u);
  check();
}

TEST_F(CacheFailure, ABlockFoundWrongWhileTheRestOfItsRunLoadsIsNotHandedOut) {
  const Prompt a = on_disk_only(2);
  on_disk_.records.at(a.keys[0]).payload[0] ^= std::byte{1};
  ASSERT_EQ(get(a.first(1)), 0u);
  const SessionId session = cache_->open_session();
  const auto slots = cache_->reserve(session, 1, space_, a.first(1), 0);
  ASSERT_EQ(slots.size(), 1u);
  // Its bytes are not those of the checksum that it is sealed with.
  ASSERT_EQ(seal_one(session, 1, slots[0], a, 0)[0], SealOutcome::sealed);
  std::size_t got = 99;
  cache_->acquire(session, 2, space_, a.keys, {}, [&](auto blocks) { got = blocks.size(); });
  ASSERT_EQ(disk_->under_way().size(), 2u);
  finish_disk(0);  // the write sees it
  EXPECT_EQ(stats(Tier::device).corruptions, 1u);
  EXPECT_EQ(got, 99u);
  finish_disk(0);
  EXPECT_EQ(got, 0u);
  check();
  cache_->end_session(session);
  EXPECT_EQ(cache_->stats().quarantined_slots, 0u);
  check();
}

TEST_F(CacheFailure, WhatIsBelowAHoleDoesNotKeepTheDeviceFull) {
  start({.device_blocks = 8});
  const Prompt a = prompt(1, 3);
  const SessionId sealer = cache_->open_session();
  const auto slots = cache_->reserve(sealer, 1, space_, a.keys, 0);
  for (std::size_t i = 1; i < 3; ++i)
    std::ranges::copy(contents(a.keys[i]), slot_bytes(slots[i]).begin());
  // The head's bytes are not those of its checksum.
  for (std::size_t i = 0; i < 3; ++i) seal_one(sealer, 1, slots[i], a, i);
  cache_->end_session(sealer);
  ASSERT_EQ(disk_->under_way().size(), 3u);
  finish_disk(0);
  EXPECT_EQ(stats(Tier::device).corruptions, 1u);
  finish_disk(0, io_error);
  finish_disk(0, io_error);
  tick(60'000);
  EXPECT_EQ(get(a.keys), 0u);
  check();
  const SessionId other = cache_->open_session();
  EXPECT_EQ(cache_->reserve(other, 1, space_, {}, 8).size(), 8u);
  check();
}

TEST_F(CacheFailure, WhatIsBelowAHoleIsWrittenOnceItIsHealed) {
  start({.device_blocks = 8});
  const Prompt a = prompt(1, 2);
  const SessionId sealer = cache_->open_session();
  const auto slots = cache_->reserve(sealer, 1, space_, a.keys, 0);
  std::ranges::copy(contents(a.keys[1]), slot_bytes(slots[1]).begin());
  for (std::size_t i = 0; i < 2; ++i) seal_one(sealer, 1, slots[i], a, i);
  cache_->end_session(sealer);
  finish_disk(0);
  finish_disk(0, io_error);
  tick(60'000);
  EXPECT_TRUE(disk_->under_way().empty());
  EXPECT_EQ(put(a, 0, 1), 1u);
  finish_everything();
  EXPECT_TRUE(on_disk_.records.contains(a.keys[0]));
  EXPECT_TRUE(on_disk_.records.contains(a.keys[1]));
  check();
}

// Device blocks that a worker wrote wrongly, or overwrote after it took the checksum.
class CacheDeviceVerify : public CacheFailure {
 protected:
  // Seals one good block and one whose bytes are not those of its checksum.
  Prompt seal_good_and_bad(SessionId session) {
    const Prompt a = prompt(1, 2);
    const auto slots = cache_->reserve(session, 1, space_, a.keys, 0);
    std::ranges::copy(contents(a.keys[0]), slot_bytes(slots[0]).begin());
    std::ranges::copy(contents(a.keys[1]), slot_bytes(slots[1]).begin());
    slot_bytes(slots[1])[5] ^= std::byte{1};
    seal_one(session, 1, slots[0], a, 0);
    seal_one(session, 1, slots[1], a, 1);
    bad_slot_ = slots[1];
    return a;
  }
  SlotOffset bad_slot_ = 0;
};

TEST_F(CacheDeviceVerify, FirstUseByAnotherSessionIsChecked) {
  start({.device_blocks = 4, .disk_blocks = 0});
  const SessionId sealer = cache_->open_session();
  const Prompt a = seal_good_and_bad(sealer);
  EXPECT_EQ(get(a.keys), 1u);
  EXPECT_EQ(stats(Tier::device).corruptions, 1u);
  EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 1u);
  check();
  // The slot is kept away while its sealer, who may still write to it, is there.
  EXPECT_EQ(cache_->stats().quarantined_slots, 1u);
  const SessionId other = cache_->open_session();
  const auto slots = cache_->reserve(other, 1, space_, {}, 4);
  EXPECT_EQ(slots.size(), 2u);
  EXPECT_EQ(std::ranges::count(slots, bad_slot_), 0);
  cache_->end_session(sealer);
  EXPECT_EQ(cache_->stats().quarantined_slots, 0u);
  // The good block is nobody's now and may go as well.
  EXPECT_EQ(cache_->reserve(other, 1, space_, {}, 4).size(), 2u);
  check();
}

TEST_F(CacheDeviceVerify, ABlockIsCheckedOnce) {
  start({.device_blocks = 4, .disk_blocks = 0});
  const SessionId sealer = cache_->open_session();
  const Prompt a = prompt(1, 2);
  put(sealer, 1, a, 0, 2);
  // Not for the sealer itself.
  EXPECT_EQ(get(sealer, 2, a.keys).size(), 2u);
  EXPECT_EQ(accelerator_.checks(), 0u);
  EXPECT_EQ(get(a.keys), 2u);
  EXPECT_EQ(accelerator_.checks(), 2u);
  EXPECT_EQ(get(a.keys), 2u);
  EXPECT_EQ(accelerator_.checks(), 2u);
}

TEST_F(CacheDeviceVerify, AWriteToDiskIsACheckToo) {
  start({});
  const Prompt a = prompt(1, 2);
  put(a, 0, 2);
  finish_everything();
  EXPECT_EQ(get(a.keys), 2u);
  EXPECT_EQ(accelerator_.checks(), 0u);
}

TEST_F(CacheDeviceVerify, TwoAcquiresShareACheck) {
  start({.disk_blocks = 0});
  const Prompt a = prompt(1, 2);
  put(a, 0, 2);
  const SessionId one = cache_->open_session(), two = cache_->open_session();
  int done = 0;
  cache_->acquire(one, 1, space_, a.keys, {}, [&](auto got) { done += got.size() == 2; });
  cache_->acquire(two, 1, space_, a.keys, {}, [&](auto got) { done += got.size() == 2; });
  EXPECT_EQ(accelerator_.checks(), 2u);
  EXPECT_EQ(done, 0);
  finish_everything();
  EXPECT_EQ(done, 2);
  check();
}

TEST_F(CacheDeviceVerify, NeverAndAlwaysDoWhatTheySay) {
  start({.disk_blocks = 0, .verify = DeviceVerify::never});
  const Prompt a = prompt(1, 2);
  put(a, 0, 2);
  EXPECT_EQ(get(a.keys), 2u);
  EXPECT_EQ(accelerator_.checks(), 0u);
  start({.disk_blocks = 0, .verify = DeviceVerify::always});
  put(a, 0, 2);
  EXPECT_EQ(get(a.keys), 2u);
  EXPECT_EQ(get(a.keys), 2u);
  EXPECT_EQ(accelerator_.checks(), 4u);
}

// A worker that overwrites a sealed block of its own, before anybody else uses it and after.
TEST_F(CacheDeviceVerify, EachModeFindsWhatItPromisesToFind) {
  struct Expected {
    DeviceVerify mode;
    std::size_t before_first_use, after_first_use;  // blocks that are handed out
  };
  for (const Expected expected :
       {Expected{DeviceVerify::never, 1, 1}, Expected{DeviceVerify::first_use, 0, 1},
        Expected{DeviceVerify::always, 0, 0}}) {
    for (const bool used_before : {false, true}) {
      start({.disk_blocks = 0, .verify = expected.mode});
      const SessionId sealer = cache_->open_session();
      const Prompt a = prompt(1, 1);
      const auto slots = cache_->reserve(sealer, 1, space_, a.keys, 0);
      std::ranges::copy(contents(a.keys[0]), slot_bytes(slots[0]).begin());
      seal_one(sealer, 1, slots[0], a, 0);
      if (used_before) {
        ASSERT_EQ(get(a.keys), 1u);
      }
      slot_bytes(slots[0])[3] ^= std::byte{1};
      const std::size_t wanted = used_before ? expected.after_first_use : expected.before_first_use;
      const SessionId other = cache_->open_session();
      std::size_t got = 9;
      cache_->acquire(other, 1, space_, a.keys, {}, [&](auto blocks) { got = blocks.size(); });
      finish_everything();
      EXPECT_EQ(got, wanted) << static_cast<int>(expected.mode) << used_before;
      EXPECT_EQ(stats(Tier::device).corruptions, 1 - wanted);
      EXPECT_EQ(cache_->stats().quarantined_slots, 1 - wanted);
      check();
    }
  }
}

// Whatever the mode: a block is checked when it is demoted, although it was found good before.
TEST_F(CacheDeviceVerify, ADemotionChecksAlsoWhatWasFoundGoodBefore) {
  for (const DeviceVerify mode :
       {DeviceVerify::never, DeviceVerify::first_use, DeviceVerify::always}) {
    start({.device_blocks = 4,
           .host_blocks = 8,
           .disk_blocks = 0,
           .verify = mode,
           .clean_fraction = 1});
    const SessionId sealer = cache_->open_session();
    const Prompt a = prompt(1, 2);
    const auto slots = cache_->reserve(sealer, 1, space_, a.keys, 0);
    for (std::size_t i = 0; i < 2; ++i) {
      std::ranges::copy(contents(a.keys[i]), slot_bytes(slots[i]).begin());
      seal_one(sealer, 1, slots[i], a, i);
    }
    ASSERT_EQ(get(a.keys), 2u);
    slot_bytes(slots[1])[3] ^= std::byte{1};
    cache_->release(sealer, 1);  // from now on both may be demoted
    finish_everything();
    tick();
    finish_everything();
    EXPECT_EQ(stats(Tier::host).blocks, 1u);
    EXPECT_EQ(stats(Tier::device).corruptions, 1u);
    EXPECT_EQ(cache_->stats().quarantined_slots, 1u);  // its sealer is still there
    EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 1u);
    check();
  }
}

TEST_F(CacheDeviceVerify, AReleaseDuringACheckIsHarmless) {
  start({.device_blocks = 2, .disk_blocks = 0});
  const Prompt a = prompt(1, 2);
  put(a, 0, 2);
  const SessionId session = cache_->open_session();
  bool called = false;
  cache_->acquire(session, 1, space_, a.keys, {}, [&](auto) { called = true; });
  cache_->end_session(session);
  EXPECT_EQ(put(prompt(2, 2), 0, 2), 0u);  // still being read
  finish_everything();
  EXPECT_FALSE(called);
  EXPECT_EQ(put(prompt(2, 2), 0, 2), 2u);
  check();
}

TEST_F(CacheDeviceVerify, WrongBytesNeverReachTheDisk) {
  start({});
  const SessionId sealer = cache_->open_session();
  const Prompt a = seal_good_and_bad(sealer);
  finish_everything();
  EXPECT_EQ(on_disk_.records.size(), 1u);
  EXPECT_EQ(stats(Tier::device).corruptions, 1u);
  EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 1u);
  check();
}

TEST_F(CacheDeviceVerify, WrongBytesNeverReachTheHost) {
  start({.device_blocks = 4, .host_blocks = 8, .disk_blocks = 0, .clean_fraction = 1});
  const SessionId sealer = cache_->open_session();
  const Prompt a = seal_good_and_bad(sealer);
  cache_->end_session(sealer);
  tick();
  finish_everything();
  EXPECT_EQ(stats(Tier::device).corruptions, 1u);
  EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 1u);
  check();
}

TEST_F(CacheFailure, DestroyingTheCacheWithEverythingUnderWayIsSafe) {
  start({.device_blocks = 8, .host_blocks = 8, .clean_fraction = 1});
  put(prompt(1, 8), 0, 8);
  const SessionId session = cache_->open_session();
  bool called = false;
  cache_->acquire(session, 1, space_, prompt(1, 8).keys, {}, [&](auto) { called = true; });
  EXPECT_GT(accelerator_.under_way(), 0u);
  EXPECT_GT(disk_->under_way().size(), 0u);
  stop();
  EXPECT_FALSE(called);
}

TEST_F(CacheFailure, ArenasThatCannotBeHadAreAnError) {
  CacheOptions options;
  options.device_capacity_bytes = std::uint64_t{1} << 60;
  EXPECT_FALSE(TieredCache::create(options, accelerator_, nullptr, clock_));
}

TEST_F(CacheFailure, ACacheWithoutADeviceTierKnowsItsBlocksAndServesThemOnceItHasOne) {
  start({});
  const Prompt a = prompt(1, 3);
  put(a, 0, 3);
  finish_everything();
  stop();

  CacheOptions options;
  options.device_capacity_bytes = 0;
  auto disk = std::make_unique<FakeDisk>(on_disk_);
  disk_ = disk.get();
  auto cache = TieredCache::create(options, accelerator_, std::move(disk), clock_);
  ASSERT_TRUE(cache);
  cache_ = std::move(*cache);
  space_ = *cache_->open_space(descriptor());
  EXPECT_EQ(cache_->device_arena_fd(), -1);
  EXPECT_EQ(cache_->device_arena_bytes(), 0u);
  EXPECT_EQ(states(a), std::vector<BlockState>(3, BlockState::disk));
  EXPECT_EQ(get(a.keys), 0u);
  const SessionId session = cache_->open_session();
  EXPECT_TRUE(cache_->reserve(session, 1, space_, a.keys, 4).empty());
  tick();
  finish_everything();
  check();

  ASSERT_TRUE(cache_->attach_device(*accelerator_.allocate(8 * test_block_bytes)).ok());
  EXPECT_EQ(cache_->attach_device(*accelerator_.allocate(8 * test_block_bytes)).code(),
            StatusCode::failed_precondition);
  device_ = *SharedMapping::map(cache_->device_arena_fd(), cache_->device_arena_bytes(),
                                SharedMapping::Access::read_write);
  EXPECT_EQ(get(a.keys), 3u);
  EXPECT_EQ(put(prompt(2, 2), 0, 2), 2u);
  check();
}

TEST_F(CacheFailure, ABlockThatIsSealedAgainDuringItsDemotionIsNotDemotedTwice) {
  start({.device_blocks = 4,
         .host_blocks = 4,
         .disk_blocks = 0,
         .verify = DeviceVerify::always,
         .clean_fraction = 1});
  const Prompt a = prompt(1, 1);
  const SessionId sealer = cache_->open_session(), other = cache_->open_session();
  const SlotOffset slot = cache_->reserve(sealer, 1, space_, a.keys, 0).at(0);
  std::ranges::copy(contents(a.keys[0]), slot_bytes(slot).begin());
  ASSERT_EQ(seal_one(sealer, 1, slot, a, 0)[0], SealOutcome::sealed);
  cache_->release(sealer, 1);
  ASSERT_EQ(accelerator_.under_way(), 1u);  // the demotion
  slot_bytes(slot)[0] ^= std::byte{1};
  std::size_t got = 1;
  cache_->acquire(other, 1, space_, a.keys, {},
                  [&](std::vector<AcquiredBlock> blocks) { got = blocks.size(); });
  ASSERT_EQ(accelerator_.under_way(), 2u);  // and the check, which comes first
  finish_copy(1);
  EXPECT_EQ(got, 0u);
  ASSERT_EQ(put(other, 2, a, 0, 1), 1u);
  cache_->release(other, 2);
  check();
  finish_everything();
  check();
  tick();
  finish_everything();
  check();
  EXPECT_EQ(stats(Tier::host).blocks, 1u);
  EXPECT_EQ(get(a.keys), 1u);
}

}  // namespace
}  // namespace terrace::storage
