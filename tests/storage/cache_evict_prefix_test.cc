// Evicting a prefix on an operator's word.
#include "tests/storage/support/cache_fixture.h"

namespace terrace::storage {
namespace {

class CacheEvictPrefix : public CacheFixture {
 protected:
  void evict(const BlockKey& key) {
    cache_->evict_prefix(key, [this](Result<std::uint64_t> blocks) { outcome_ = blocks; });
  }
  std::uint32_t matched(const Prompt& p) {
    return cache_->match(space_, p.keys, {}).matched_blocks;
  }

  std::optional<Result<std::uint64_t>> outcome_;
};

TEST_F(CacheEvictPrefix, TheBlockAndAllThatFollowItGoFromEveryTier) {
  start({.device_blocks = 16, .host_blocks = 8, .clean_fraction = 0.75});
  // Two prompts of two blocks in common, and one that has nothing to do with them.
  const Prompt a = prompt(1, 4, 1, 2), b = prompt(1, 4, 2, 2), other = prompt(2, 3);
  for (const Prompt& p : {a, b, other}) {
    put(p, 0, p.keys.size());
    finish_everything();
  }
  tick();
  finish_everything();
  ASSERT_EQ(stats(Tier::disk).blocks, 9u);
  ASSERT_GT(stats(Tier::host).blocks, 0u);
  evict(a.keys[2]);
  EXPECT_FALSE(outcome_);  // not durable yet
  finish_everything();
  ASSERT_TRUE(outcome_ && *outcome_);
  EXPECT_EQ(**outcome_, 2u);
  EXPECT_EQ(matched(a), 2u);
  EXPECT_EQ(matched(b), 4u);
  EXPECT_EQ(matched(other), 3u);
  EXPECT_FALSE(on_disk_.records.contains(a.keys[2]) || on_disk_.records.contains(a.keys[3]));
  check();

  evict(a.keys[0]);
  finish_everything();
  EXPECT_EQ(**outcome_, 4u);
  EXPECT_EQ(matched(a) + matched(b), 0u);
  EXPECT_EQ(matched(other), 3u);
  EXPECT_EQ(on_disk_.records.size(), 3u);
  EXPECT_EQ(stats(Tier::device).blocks, 3u);
  check();
  // It may come again.
  EXPECT_EQ(put(a, 0, 4), 4u);
  finish_everything();
  EXPECT_EQ(matched(a), 4u);
}

TEST_F(CacheEvictPrefix, IsNotBroughtBackByAStart) {
  start({});
  const Prompt a = prompt(1, 3);
  put(a, 0, 3);
  finish_everything();
  evict(a.keys[1]);
  finish_everything();
  start({});
  EXPECT_EQ(matched(a), 1u);
  check();
}

TEST_F(CacheEvictPrefix, WhatIsHeldStaysTheLeasesUntilItIsReleased) {
  start({.device_blocks = 4});
  const Prompt a = prompt(1, 2);
  put(a, 0, 2);
  finish_everything();
  const SessionId session = cache_->open_session();
  const auto got = get(session, 1, a.keys);
  ASSERT_EQ(got.size(), 2u);
  evict(a.keys[0]);
  finish_everything();
  EXPECT_EQ(**outcome_, 2u);
  EXPECT_EQ(matched(a), 0u);
  EXPECT_EQ(put(prompt(2, 4), 0, 4), 2u);
  EXPECT_TRUE(holds(got[0].slot, a.keys[0]));
  EXPECT_TRUE(holds(got[1].slot, a.keys[1]));
  cache_->release(session, 1);
  check();
}

TEST_F(CacheEvictPrefix, WhatIsAtWorkGoesWhenThatIsOver) {
  start({.device_blocks = 4, .disk_blocks = 32});
  const Prompt a = prompt(1, 3);
  put(a, 0, 3);
  finish_everything();
  put(prompt(3, 4), 0, 4);
  finish_everything();
  const SessionId session = cache_->open_session();
  std::size_t got = 99;
  cache_->acquire(session, 1, space_, a.keys, {}, [&](auto blocks) { got = blocks.size(); });
  ASSERT_EQ(disk_->under_way().size(), 3u);
  evict(a.keys[0]);
  cache_->run_completions();
  EXPECT_FALSE(outcome_);
  check();
  finish_everything();
  ASSERT_TRUE(outcome_ && *outcome_);
  EXPECT_EQ(**outcome_, 3u);
  EXPECT_NE(got, 99u);
  EXPECT_EQ(matched(a), 0u);
  check();
}

TEST_F(CacheEvictPrefix, WhatAPinHoldsIsRefused) {
  start({});
  const Prompt a = prompt(1, 3);
  put(a, 0, 3);
  finish_everything();
  ASSERT_TRUE(cache_->pin(a.keys[1], {}));
  evict(a.keys[0]);
  ASSERT_TRUE(outcome_ && !*outcome_);
  EXPECT_EQ(outcome_->error().code(), StatusCode::failed_precondition);
  EXPECT_EQ(matched(a), 3u);
  // Not what follows the pinned prefix.
  evict(a.keys[2]);
  finish_everything();
  EXPECT_EQ(**outcome_, 1u);
  EXPECT_EQ(matched(a), 2u);
  check();
}

TEST_F(CacheEvictPrefix, APinThatIsMadeMeanwhileEndsIt) {
  start({.device_blocks = 4, .disk_blocks = 32});
  const Prompt a = prompt(1, 3);
  put(a, 0, 3);
  finish_everything();
  put(prompt(3, 4), 0, 4);
  finish_everything();
  const SessionId session = cache_->open_session();
  cache_->acquire(session, 1, space_, a.keys, {}, [](auto) {});
  ASSERT_EQ(disk_->under_way().size(), 3u);
  evict(a.keys[0]);
  EXPECT_FALSE(outcome_);
  ASSERT_TRUE(cache_->pin(a.keys[2], {}));
  finish_everything();
  ASSERT_TRUE(outcome_ && !*outcome_);
  EXPECT_EQ(outcome_->error().code(), StatusCode::failed_precondition);
  EXPECT_EQ(matched(a), 3u);
  check();
}

TEST_F(CacheEvictPrefix, WhatIsSharedIsErasedThereToo) {
  start({.remote = true, .redis_write = WritePolicy::behind});
  const Prompt a = prompt(1, 3);
  put(a, 0, 3);
  finish_everything();
  ASSERT_EQ(in_redis_.values.size(), 3u);
  evict(a.keys[1]);
  finish_everything();
  EXPECT_EQ(in_redis_.values.size(), 1u);
  check();
}

TEST_F(CacheEvictPrefix, ManyBlocksGoInManyTurnsAndEachAsksForTheNext) {
  start({.device_blocks = 64, .disk_blocks = 10'000});
  for (int i = 0; i < 20; ++i) {
    const Prompt p = prompt(1, 60, i, 1);
    EXPECT_EQ(put(p, i == 0 ? 0 : 1, i == 0 ? 60 : 59), i == 0 ? 60u : 59u);
    finish_everything();
  }
  ASSERT_EQ(stats(Tier::disk).blocks, 1 + 20 * 59u);
  int wakes = 0;
  cache_->set_wake([&] { ++wakes; });
  evict(prompt(1, 60).keys[0]);
  int turns = 1;
  for (; wakes > 0 && turns < 100; ++turns) {
    wakes = 0;
    cache_->run_completions();
  }
  EXPECT_GE(turns, 3);
  EXPECT_EQ(stats(Tier::disk).blocks, 0u);
  finish_everything();
  EXPECT_EQ(**outcome_, 1 + 20 * 59u);
  check();
}

TEST_F(CacheEvictPrefix, AnUnknownBlockIsNotFound) {
  start({});
  evict(prompt(1, 1).keys[0]);
  ASSERT_TRUE(outcome_ && !*outcome_);
  EXPECT_EQ(outcome_->error().code(), StatusCode::not_found);
}

}  // namespace
}  // namespace terrace::storage
