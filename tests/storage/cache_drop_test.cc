// Dropping a space.
#include <algorithm>

#include "tests/storage/support/cache_fixture.h"

namespace terrace::storage {
namespace {

class CacheDrop : public CacheFixture {
 protected:
  // Starts to drop the fixture's space.
  void drop() {
    cache_->drop_space(digest_, [this](const Status& status) {
      EXPECT_TRUE(status.ok()) << status.to_string();
      ++done_;
    });
  }
  std::uint32_t matched(const Prompt& p) {
    return cache_->match(space_, p.keys, {}).matched_blocks;
  }

  int done_ = 0;
};

TEST_F(CacheDrop, EveryCopyGoesFromEveryTierAndTheSpaceStartsEmpty) {
  start({.device_blocks = 4, .host_blocks = 4, .disk_blocks = 32, .clean_fraction = 0.5});
  for (int i = 1; i <= 4; ++i) {
    put(prompt(i, 3), 0, 3);
    finish_everything();
  }
  ASSERT_GT(stats(Tier::host).blocks, 0u);
  ASSERT_EQ(stats(Tier::disk).blocks, 12u);
  std::uint64_t blocks = 0;
  blocks = cache_->drop_space(digest_, [this](const Status&) { ++done_; });
  EXPECT_EQ(blocks, 12u);
  EXPECT_EQ(done_, 0);  // not durable yet
  finish_everything();
  EXPECT_EQ(done_, 1);
  for (const Tier tier : {Tier::device, Tier::host, Tier::disk}) {
    EXPECT_EQ(stats(tier).blocks, 0u) << to_string(tier);
    EXPECT_EQ(stats(tier).used_bytes, 0u) << to_string(tier);
  }
  EXPECT_TRUE(on_disk_.records.empty());
  EXPECT_TRUE(on_disk_.notes.empty());
  check();
  EXPECT_EQ(matched(prompt(1, 3)), 0u);
  EXPECT_EQ(*cache_->open_space(descriptor()), space_);
  EXPECT_EQ(put(prompt(1, 3), 0, 3), 3u);
  EXPECT_EQ(matched(prompt(1, 3)), 3u);
  check();
}

TEST_F(CacheDrop, AnotherSpaceStays) {
  start({});
  put(prompt(1, 3), 0, 3);
  const BlockKey mine = digest_;
  const SpaceId my_space = space_;
  space_ = *cache_->open_space(descriptor("other"));
  digest_ = descriptor("other").digest();
  const Prompt other = prompt(1, 3);
  put(other, 0, 3);
  finish_everything();
  cache_->drop_space(mine, [](const Status&) {});
  finish_everything();
  EXPECT_EQ(matched(other), 3u);
  EXPECT_EQ(stats(Tier::disk).blocks, 3u);
  space_ = my_space;
  check();
}

TEST_F(CacheDrop, WhatIsHeldStaysTheLeasesUntilItIsReleased) {
  start({.device_blocks = 4});
  const Prompt a = prompt(1, 2);
  put(a, 0, 2);
  finish_everything();
  const SessionId session = cache_->open_session();
  const auto got = get(session, 1, a.keys);
  ASSERT_EQ(got.size(), 2u);
  drop();
  finish_everything();
  EXPECT_EQ(done_, 1);
  check();
  // Not matched, and not handed to anybody else, the same prefix included.
  EXPECT_EQ(matched(a), 0u);
  EXPECT_EQ(put(a, 0, 2), 2u);
  finish_everything();
  EXPECT_EQ(put(prompt(2, 4), 0, 4), 2u);
  EXPECT_TRUE(holds(got[0].slot, a.keys[0]));
  EXPECT_TRUE(holds(got[1].slot, a.keys[1]));
  finish_everything();
  cache_->release(session, 1);
  EXPECT_EQ(put(prompt(3, 4), 0, 4), 4u);
  check();
}

TEST_F(CacheDrop, WhatIsAtWorkGoesWhenThatIsOver) {
  start({.device_blocks = 4, .disk_blocks = 32});
  const Prompt a = prompt(1, 3), b = prompt(2, 2);
  put(a, 0, 3);
  finish_everything();
  put(prompt(3, 4), 0, 4);
  finish_everything();
  const SessionId session = cache_->open_session();
  std::size_t got = 99;
  cache_->acquire(session, 1, space_, a.first(2), {}, [&](auto blocks) { got = blocks.size(); });
  put(b, 0, 1);
  ASSERT_EQ(disk_->under_way().size(), 3u);  // two reads, one write
  drop();
  cache_->run_completions();
  EXPECT_EQ(done_, 0);
  EXPECT_EQ(matched(a) + matched(b), 0u);
  EXPECT_FALSE(cache_->pin(b.keys[0], {}));
  EXPECT_EQ(cache_->reserve(session, 2, space_, {}, 1).size(), 0u);
  check();
  finish_everything();
  EXPECT_EQ(done_, 1);
  EXPECT_NE(got, 99u);
  EXPECT_TRUE(on_disk_.records.empty());
  EXPECT_EQ(stats(Tier::disk).blocks, 0u);
  cache_->end_session(session);
  EXPECT_EQ(stats(Tier::device).used_bytes, 0u);
  check();
}

TEST_F(CacheDrop, WhatWasReservedBeforeMayBeSealedAfterIfItsParentIsThere) {
  start({});
  const Prompt a = prompt(1, 2), b = prompt(2, 1);
  put(a, 0, 1);
  finish_everything();
  const SessionId session = cache_->open_session();
  const auto slots = cache_->reserve(session, 1, space_, {}, 2);
  ASSERT_EQ(slots.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i)
    std::ranges::copy(contents(i == 0 ? a.keys[1] : b.keys[0]), slot_bytes(slots[i]).begin());
  drop();
  finish_everything();
  EXPECT_EQ(seal_one(session, 1, slots[0], a, 1)[0], SealOutcome::invalid);
  EXPECT_EQ(seal_one(session, 1, slots[1], b, 0)[0], SealOutcome::sealed);
  finish_everything();
  EXPECT_EQ(matched(b), 1u);
  check();
}

TEST_F(CacheDrop, ADropThatACrashCutShortIsFinishedByTheNextStart) {
  start({});
  put(prompt(1, 3), 0, 3);
  finish_everything();
  const auto records = on_disk_.records;
  drop();
  stop();  // before the disk says that it is durable
  ASSERT_EQ(on_disk_.notes.size(), 1u);
  on_disk_.records = records;  // and as if nothing had been
  start({});
  EXPECT_EQ(matched(prompt(1, 3)), 0u);
  EXPECT_TRUE(on_disk_.records.empty());
  EXPECT_TRUE(on_disk_.notes.empty());
  put(prompt(1, 3), 0, 3);
  finish_everything();
  start({});
  EXPECT_EQ(matched(prompt(1, 3)), 3u);
  check();
}

TEST_F(CacheDrop, ItsPinsGoWithIt) {
  start({});
  put(prompt(1, 3), 0, 3);
  finish_everything();
  ASSERT_TRUE(cache_->pin(prompt(1, 3).keys[2], {}));
  drop();
  finish_everything();
  EXPECT_TRUE(cache_->pins().empty());
  EXPECT_EQ(cache_->stats().pinned_bytes, 0u);
  EXPECT_EQ(done_, 1);
  check();
}

TEST_F(CacheDrop, ManyBlocksGoInManyTurnsAndEachAsksForTheNext) {
  start({.device_blocks = 64, .disk_blocks = 10'000});
  for (int i = 0; i < 160; ++i) {
    EXPECT_EQ(put(prompt(i, 60), 0, 60), 60u);
    finish_everything();
  }
  ASSERT_EQ(stats(Tier::disk).blocks, 9600u);
  int wakes = 0;
  cache_->set_wake([&] { ++wakes; });
  drop();
  int turns = 1;
  for (; wakes > 0 && turns < 100; ++turns) {
    wakes = 0;
    cache_->run_completions();
  }
  EXPECT_GE(turns, 3);
  EXPECT_EQ(stats(Tier::disk).blocks, 0u);
  finish_everything();
  EXPECT_EQ(done_, 1);
  check();
}

TEST_F(CacheDrop, AnUnknownSpaceIsNotFound) {
  start({});
  Status told;
  EXPECT_EQ(cache_->drop_space(BlockKey{}, [&](const Status& status) { told = status; }), 0u);
  EXPECT_EQ(told.code(), StatusCode::not_found);
}

TEST_F(CacheDrop, WithoutADiskItIsDoneAtOnce) {
  start({.disk_blocks = 0});
  put(prompt(1, 3), 0, 3);
  drop();
  EXPECT_EQ(done_, 1);
  EXPECT_EQ(stats(Tier::device).used_bytes, 0u);
  check();
}

// Whatever the crash came in the middle of: here all is erased again, and so it is in Redis, which
// is not believed to have any of it before.
TEST_F(CacheDrop, AStartFinishesInRedisWhatACrashCutShort) {
  start({.remote = true, .redis_write = WritePolicy::behind});
  const Prompt p = prompt(1, 3);
  put(p, 0, 3);
  finish_everything();
  ASSERT_EQ(in_redis_.values.size(), 3u);
  drop();
  ASSERT_FALSE(on_disk_.notes.empty());
  start({.remote = true, .redis_write = WritePolicy::behind});  // with Redis not asked yet
  const auto erasures = [this] {
    return std::ranges::count(remote_->under_way(), FakeRemote::Kind::erase_space,
                              &FakeRemote::Request::kind);
  };
  remote_->set_breaker(Breaker::open);
  tick();
  EXPECT_EQ(erasures(), 0);
  remote_->set_breaker(Breaker::closed);
  int told = 0;
  cache_->look_up(space_, p.keys, p.tokens, clock_.monotonic_ns() + 1'000'000'000, [&] { ++told; });
  EXPECT_EQ(told, 1);
  EXPECT_EQ(matched(p), 0u);
  tick();
  ASSERT_EQ(erasures(), 1);
  finish_remote(0, Status(StatusCode::unavailable, "away"));
  tick(50);
  EXPECT_EQ(erasures(), 0) << "at growing intervals";
  ASSERT_FALSE(on_disk_.notes.empty()) << "the next start would try, too";
  tick();
  ASSERT_EQ(erasures(), 1);
  finish_everything();
  EXPECT_TRUE(in_redis_.values.empty());
  EXPECT_TRUE(on_disk_.notes.empty());
  // From now on it is a space like any other.
  put(p, 0, 3);
  finish_everything();
  EXPECT_EQ(in_redis_.values.size(), 3u);
  check();
}

}  // namespace
}  // namespace terrace::storage
