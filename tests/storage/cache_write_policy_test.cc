// When blocks are copied down: marks, policies, and the budget of write-behind.
#include <algorithm>

#include "tests/storage/support/cache_fixture.h"

namespace terrace::storage {
namespace {

class CacheWritePolicy : public CacheFixture {
 protected:
  static constexpr std::int64_t hour_ms = 3'600'000;

  // Single blocks of prompts that share nothing, each used later than the one before it.
  void put_singles(int first, int count) {
    for (int i = first; i < first + count; ++i) {
      EXPECT_EQ(put(prompt(i, 1), 0, 1), 1u) << "prompt " << i;
      finish_everything();
      clock_.advance_ms(1);
    }
  }
  bool on_disk(int head) const { return on_disk_.records.contains(prompt(head, 1).keys[0]); }
};

TEST_F(CacheWritePolicy, DemotionGoesFromTheLowMarkToTheHighOne) {
  start({.device_blocks = 16,
         .host_blocks = 16,
         .disk_blocks = 0,
         .clean_fraction = 0.5,
         .clean_low_fraction = 0.25});
  put_singles(1, 12);
  EXPECT_EQ(accelerator_.copies(), 0u);  // 4 slots are free, as many as the low mark asks for
  put_singles(13, 1);
  EXPECT_EQ(accelerator_.copies(), 5u);  // 3 are free; 8 are to be had
  put_singles(14, 4);
  EXPECT_EQ(accelerator_.copies(), 5u);
  put_singles(18, 1);
  EXPECT_EQ(accelerator_.copies(), 10u);
  check();
}

TEST_F(CacheWritePolicy, OnEvictWritesAheadOfNeedWhatGoesNextAndLosesNothing) {
  start({.device_blocks = 16,
         .disk_blocks = 64,
         .clean_fraction = 0.5,
         .clean_low_fraction = 0.25,
         .disk_write = WritePolicy::on_evict});
  put_singles(1, 12);
  EXPECT_EQ(disk_->writes(), 0u);
  EXPECT_EQ(get(prompt(1, 1).keys), 1u);  // a use is no reason to write
  EXPECT_EQ(disk_->writes(), 0u);
  put_singles(13, 1);
  EXPECT_EQ(disk_->writes(), 5u);
  EXPECT_FALSE(on_disk(1));  // it was used last
  for (int i = 2; i <= 6; ++i) EXPECT_TRUE(on_disk(i)) << i;
  put_singles(14, 30);
  for (int i = 1; i < 44; ++i)
    EXPECT_EQ(cache_->match(space_, prompt(i, 1).keys, {}).matched_blocks, 1u) << i;
  check();
}

TEST_F(CacheWritePolicy, OnEvictWritesHeadsBeforeTheTailThatLeaves) {
  start({.device_blocks = 8,
         .disk_blocks = 64,
         .clean_fraction = 0.25,
         .disk_write = WritePolicy::on_evict});
  const Prompt a = prompt(1, 6), b = prompt(2, 8);
  put(a, 0, 6);
  finish_everything();
  EXPECT_EQ(disk_->writes(), 0u);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(put(b, i, 1), 1u) << i;
    while (!disk_->under_way().empty()) {
      const auto& write = disk_->under_way().front().write;
      if (write.parent != digest_) {
        EXPECT_TRUE(on_disk_.records.contains(write.parent));
      }
      finish_disk();
    }
  }
  EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 6u);
  EXPECT_EQ(cache_->match(space_, b.keys, {}).matched_blocks, 8u);
  check();
}

TEST_F(CacheWritePolicy, OnEvictFromTheHostWritesWhatTheDeviceDoesNotHave) {
  start({.device_blocks = 4,
         .host_blocks = 8,
         .disk_blocks = 64,
         .clean_fraction = 0.5,
         .disk_write = WritePolicy::on_evict});
  put_singles(1, 6);
  EXPECT_EQ(disk_->writes(), 0u);
  put_singles(7, 30);
  EXPECT_GT(disk_->writes(), 0u);
  for (int i = 1; i < 37; ++i)
    EXPECT_EQ(cache_->match(space_, prompt(i, 1).keys, {}).matched_blocks, 1u) << i;
  check();
}

TEST_F(CacheWritePolicy, OnEvictIsWrittenWhenDraining) {
  start({.disk_write = WritePolicy::on_evict});
  put(prompt(1, 3), 0, 3);
  bool done = false;
  cache_->drain([&] { done = true; });
  finish_everything();
  tick();
  finish_everything();
  EXPECT_TRUE(done);
  EXPECT_EQ(on_disk_.records.size(), 3u);
}

TEST_F(CacheWritePolicy, OnSecondUseWritesWhatIsAcquiredAndNothingElse) {
  start({.device_blocks = 4, .disk_blocks = 64, .disk_write = WritePolicy::on_second_use});
  put_singles(1, 3);
  EXPECT_EQ(cache_->match(space_, prompt(2, 1).keys, {}).matched_blocks, 1u);  // no use
  EXPECT_EQ(disk_->writes(), 0u);
  EXPECT_EQ(cache_->stats().declined_writes, 3u);
  EXPECT_EQ(get(prompt(1, 1).keys), 1u);
  EXPECT_EQ(disk_->writes(), 1u);
  EXPECT_TRUE(on_disk(1));
  put_singles(4, 8);
  EXPECT_EQ(cache_->match(space_, prompt(1, 1).keys, {}).matched_blocks, 1u);
  EXPECT_EQ(cache_->match(space_, prompt(2, 1).keys, {}).matched_blocks, 0u);
  EXPECT_EQ(disk_->writes(), 1u);
  check();
}

TEST_F(CacheWritePolicy, AHostOnSecondUseGetsWhatIsAcquired) {
  start({.device_blocks = 4,
         .host_blocks = 16,
         .disk_blocks = 0,
         .clean_fraction = 0.5,
         .host_write = WritePolicy::on_second_use});
  put_singles(1, 4);
  EXPECT_EQ(accelerator_.copies(), 0u);
  for (int i = 1; i <= 4; ++i) EXPECT_EQ(get(prompt(i, 1).keys), 1u);
  put_singles(5, 8);
  for (int i = 1; i <= 4; ++i)
    EXPECT_EQ(cache_->match(space_, prompt(i, 1).keys, {}).matched_blocks, 1u) << i;
  for (int i = 5; i <= 8; ++i)
    EXPECT_EQ(cache_->match(space_, prompt(i, 1).keys, {}).matched_blocks, 0u) << i;
  EXPECT_LE(stats(Tier::host).blocks, 4u);
  check();
}

TEST_F(CacheWritePolicy, AHostBehindGetsWhatIsSealed) {
  start({.device_blocks = 64,
         .host_blocks = 64,
         .disk_blocks = 0,
         .clean_fraction = 0.1,
         .host_write = WritePolicy::behind});
  put(prompt(1, 30), 0, 30);
  EXPECT_EQ(accelerator_.under_way(), 16u);  // a limit
  finish_everything();
  EXPECT_EQ(stats(Tier::host).blocks, 30u);
  EXPECT_EQ(stats(Tier::device).blocks, 30u);
  check();
}

TEST_F(CacheWritePolicy, PastTheBudgetOfAnHourOnlyASecondUseIsWritten) {
  start({.device_blocks = 16, .hour_writes = 3});
  put_singles(1, 5);
  EXPECT_EQ(disk_->writes(), 3u);
  EXPECT_EQ(cache_->stats().declined_writes, 2u);
  EXPECT_EQ(cache_->stats().disk_hour_bytes, 3 * (test_block_bytes + 4096));
  EXPECT_EQ(get(prompt(4, 1).keys), 1u);
  EXPECT_TRUE(on_disk(4));
  EXPECT_FALSE(on_disk(5));
  clock_.advance_ms(hour_ms);
  put_singles(6, 1);
  EXPECT_TRUE(on_disk(6));
  check();
}

TEST_F(CacheWritePolicy, WhatIsOnItsWayCountsAgainstTheBudget) {
  start({.device_blocks = 64, .hour_writes = 20});
  put(prompt(1, 40), 0, 40);  // no write has been completed when the last one is sealed
  finish_everything();
  EXPECT_EQ(disk_->writes(), 20u);
  for (std::size_t i = 0; i < 40; ++i)
    EXPECT_EQ(on_disk_.records.contains(prompt(1, 40).keys[i]), i < 20) << i;
  // What was not written may be dropped for others.
  EXPECT_EQ(put(prompt(2, 60), 0, 60), 60u);
  finish_everything();
  check();
}

TEST_F(CacheWritePolicy, TheBudgetOfADayOutlivesItsHoursAndARestart) {
  start({.day_writes = 4});
  put_singles(1, 3);
  clock_.advance_ms(hour_ms);  // of the same day
  tick();
  start({.day_writes = 4});
  EXPECT_EQ(cache_->stats().disk_day_bytes, 3 * (test_block_bytes + 4096));
  put_singles(4, 3);
  EXPECT_TRUE(on_disk(4));
  EXPECT_FALSE(on_disk(5));
  clock_.advance_ms(24 * hour_ms);
  put_singles(7, 1);
  EXPECT_TRUE(on_disk(7));
}

TEST_F(CacheWritePolicy, AHoleThatIsSealedAgainIsWrittenWhateverWasSpent) {
  start({.device_blocks = 4, .hour_writes = 4});
  const Prompt a = prompt(1, 4);
  put(a, 0, 4);
  finish_everything();
  put_singles(2, 4);
  on_disk_.records.at(a.keys[1]).payload[0] ^= std::byte{1};
  EXPECT_EQ(get(a.keys), 1u);  // block 1 does not verify
  ASSERT_EQ(put(a, 1, 1), 1u);
  finish_everything();
  EXPECT_TRUE(on_disk_.records.contains(a.keys[1]));
  EXPECT_EQ(get(a.keys), 4u);
  check();
}

TEST_F(CacheWritePolicy, AHostThatIsBusyForAMomentGetsTheBlockLater) {
  start({.device_blocks = 3,
         .host_blocks = 1,
         .disk_blocks = 0,
         .clean_fraction = 0.3,
         .slab_blocks = 1});
  const Prompt a = prompt(1, 1), b = prompt(2, 1);
  put_singles(1, 1);
  const SessionId session = cache_->open_session();
  ASSERT_EQ(put(session, 1, b, 0, 1), 1u);
  ASSERT_EQ(put(session, 2, prompt(3, 1), 0, 1), 1u);
  finish_everything();
  ASSERT_EQ(cache_->reserve(session, 3, space_, {}, 1).size(), 1u);
  ASSERT_EQ(states(a)[0], BlockState::host);
  cache_->release(session, 3);
  cache_->acquire(session, 4, space_, a.keys, {}, [](auto) {});
  cache_->release(session, 1);  // b is to leave, while the host's only slot is being read
  finish_everything();
  EXPECT_EQ(stats(Tier::host).blocks, 1u);
  ASSERT_EQ(cache_->reserve(session, 5, space_, {}, 1).size(), 1u);
  EXPECT_EQ(states(b)[0], BlockState::host);
  check();
}

}  // namespace
}  // namespace terrace::storage
