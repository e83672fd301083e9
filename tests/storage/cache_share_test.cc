// Giving other hosts what is here.
#include <algorithm>

#include "tests/storage/support/remote_fixture.h"

namespace terrace::storage {
namespace {

using CacheShare = RemoteFixture;

const Status full(StatusCode::no_space, "OOM");
const Status away(StatusCode::unavailable, "away");

TEST_F(CacheShare, WhatIsUsedTwiceIsShared) {
  start(with_remote());
  const Prompt p = prompt(1, 3);
  put(p, 0, 3);
  finish_everything();
  EXPECT_TRUE(in_redis_.values.empty());
  EXPECT_EQ(remote_->lookups(), 0u);
  EXPECT_EQ(get(p.keys), 3u);
  finish_everything();
  EXPECT_EQ(in_redis_.values.size(), 3u);
  EXPECT_EQ(stats(Tier::device).demotions, 3u + 3u) << "to disk and to Redis";
  check();

  move_to_another_host(with_remote());
  EXPECT_EQ(matched(p), 3u);
  EXPECT_EQ(get(p.keys), 3u);
}

TEST_F(CacheShare, WhatIsSealedIsSharedAtOnceIfThePolicySaysSo) {
  start(with_remote({.redis_write = WritePolicy::behind}));
  const Prompt p = prompt(1, 3);
  put(p, 0, 3);
  finish_everything();
  EXPECT_EQ(in_redis_.values.size(), 3u);
  check();
}

TEST_F(CacheShare, WhatIsAboutToLeaveMemoryIsSharedIfThePolicySaysSo) {
  start(with_remote({.device_blocks = 8, .disk_blocks = 0, .redis_write = WritePolicy::on_evict}));
  const Prompt p = prompt(1, 3);
  put(p, 0, 3);
  EXPECT_EQ(get(p.keys), 3u);
  finish_everything();
  EXPECT_TRUE(in_redis_.values.empty()) << "there is room";
  put(prompt(2, 4), 0, 4);
  finish_everything();
  EXPECT_TRUE(in_redis(p, 2));
  check();
}

TEST_F(CacheShare, HeadsGoFirst) {
  start(with_remote());
  const Prompt p = prompt(1, 4);
  put(p, 0, 4);
  EXPECT_EQ(get(p.keys), 4u);
  // get() has completed it all: the order in which it was asked for is that of the writes.
  in_redis_.values.clear();
  tick(61'000);
  const SessionId session = cache_->open_session();
  cache_->acquire(session, 1, space_, p.keys, {}, [](std::vector<AcquiredBlock>) {});
  while (!remote_->under_way().empty() && remote_->under_way()[0].kind == FakeRemote::Kind::lookup)
    finish_remote();
  ASSERT_EQ(remote_->under_way().size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(remote_->under_way()[i].write.key, p.keys[i]);
  check();
}

TEST_F(CacheShare, WhatOthersHaveWrittenIsNotWrittenAgain) {
  start(with_remote());
  const Prompt p = prompt(1, 6);
  put(p, 0, 6);
  write_elsewhere(p, 0, 2);
  write_elsewhere(p, 3, 2);
  EXPECT_EQ(get(p.keys), 6u);
  finish_everything();
  EXPECT_EQ(remote_->writes(), 2u) << "the third and the last";
  EXPECT_EQ(in_redis_.values.size(), 6u);
  EXPECT_EQ(remote_stats().already_there, 4u);
  check();
}

TEST_F(CacheShare, NothingIsSharedWhoseHeadIsNotThere) {
  start(with_remote({.device_blocks = 4, .disk_blocks = 32}));
  const Prompt p = prompt(1, 4);
  put(p, 0, 4);
  finish_everything();
  EXPECT_EQ(get(p.keys), 4u);  // now in Redis as well
  finish_everything();
  const Prompt longer = prompt(1, 5);
  // Without its head, nobody could find what comes behind.
  in_redis_.values.clear();
  move_to_another_host(with_remote({.device_blocks = 4, .disk_blocks = 32}));
  put(p, 0, 4);
  finish_everything();
  put(prompt(2, 3), 0, 3);
  finish_everything();
  put(longer, 4, 1);
  finish_everything();
  ASSERT_EQ(states(longer)[0], BlockState::disk);
  const SessionId session = cache_->open_session();
  get(session, 1, std::span(longer.keys).last(1));
  finish_everything();
  EXPECT_EQ(remote_->writes(), 0u);
  check();
}

TEST_F(CacheShare, AServerThatIsFullIsTriedAgain) {
  start(with_remote());
  const Prompt p = prompt(1, 3);
  put(p, 0, 3);
  const SessionId session = cache_->open_session();
  cache_->acquire(session, 1, space_, p.keys, {}, [](std::vector<AcquiredBlock>) {});
  while (accelerator_.under_way() > 0) finish_copy();
  finish_remote();  // which are there: none
  finish_remote();  // nor behind the first
  ASSERT_EQ(remote_->under_way().size(), 3u);
  for (int i = 0; i < 3; ++i) finish_remote(0, full);
  check();
  EXPECT_EQ(stats(Tier::redis).failures, 3u);
  EXPECT_TRUE(remote_->under_way().empty()) << "not at once";
  EXPECT_EQ(states(p)[2], BlockState::device) << "nothing is lost here";
  tick(100);
  while (!remote_->under_way().empty() && remote_->under_way()[0].kind == FakeRemote::Kind::lookup)
    finish_remote();
  EXPECT_EQ(remote_->under_way().size(), 1u) << "one at a time until one is taken";
  finish_remote(0, full);
  check();
  tick(100);
  EXPECT_TRUE(remote_->under_way().empty()) << "twice as long";
  for (int i = 0; i < 30; ++i) {
    tick(10'000);
    while (!remote_->under_way().empty()) finish_remote(0, full);
  }
  check();
  tick(10'000);
  finish_everything();
  EXPECT_EQ(in_redis_.values.size(), 3u) << "never given up";
  check();
}

TEST_F(CacheShare, AServerThatIsAwayIsLeftAlone) {
  start(with_remote());
  const Prompt p = prompt(1, 2);
  put(p, 0, 2);
  remote_->set_breaker(Breaker::open);
  EXPECT_EQ(get(p.keys), 2u);
  tick(10'000);
  EXPECT_EQ(remote_->lookups(), 0u);
  EXPECT_EQ(remote_stats().queued_prefixes, 1u);
  remote_->set_breaker(Breaker::half_open);
  tick(100);
  ASSERT_EQ(remote_->under_way().size(), 1u);
  finish_remote(0, away);
  EXPECT_TRUE(remote_->under_way().empty());
  tick(100);
  finish_everything();
  EXPECT_EQ(in_redis_.values.size(), 2u);
  check();
}

TEST_F(CacheShare, AQuestionThatIsNotAnsweredIsAskedAgain) {
  start(with_remote());
  const Prompt p = prompt(1, 2);
  put(p, 0, 2);
  const SessionId session = cache_->open_session();
  get(session, 1, p.keys);
  in_redis_.values.clear();
  tick(61'000);
  cache_->acquire(session, 2, space_, p.keys, {}, [](std::vector<AcquiredBlock>) {});
  ASSERT_EQ(remote_->under_way().size(), 1u);
  tick(1'000);  // no answer
  check();
  tick(100);
  EXPECT_EQ(remote_->under_way().size(), 2u);
  finish_everything();
  EXPECT_EQ(in_redis_.values.size(), 2u);
  check();
}

TEST_F(CacheShare, WrongBytesAreNotShared) {
  start(with_remote({.verify = DeviceVerify::never}));
  const Prompt p = prompt(1, 2);
  put(p, 0, 2);
  finish_everything();
  const SessionId session = cache_->open_session();
  const auto got = get(session, 1, p.first(1));
  slot_bytes(got[0].slot)[5] ^= std::byte{1};
  in_redis_.values.clear();
  tick(61'000);
  cache_->acquire(session, 2, space_, p.keys, {}, [](std::vector<AcquiredBlock>) {});
  finish_everything();
  EXPECT_FALSE(in_redis(p, 0));
  EXPECT_EQ(stats(Tier::device).corruptions, 1u);
  check();
}

TEST_F(CacheShare, WhatIsBeingSentStaysWhereItIs) {
  start(with_remote({.device_blocks = 4, .disk_blocks = 0}));
  const Prompt p = prompt(1, 2);
  put(p, 0, 2);
  const SessionId session = cache_->open_session();
  cache_->acquire(session, 1, space_, p.keys, {}, [](std::vector<AcquiredBlock>) {});
  while (accelerator_.under_way() > 0) finish_copy();
  finish_remote();
  finish_remote();
  ASSERT_EQ(remote_->under_way().size(), 2u);
  cache_->end_session(session);
  EXPECT_EQ(put(prompt(2, 4), 0, 4), 2u);
  check();
  finish_everything();
  EXPECT_EQ(in_redis_.values.size(), 2u);
  EXPECT_EQ(in_redis_.values.at(p.keys[1]).payload, contents(p.keys[1]));
  EXPECT_EQ(put(prompt(3, 4), 0, 4), 4u) << "and goes then, here";
  EXPECT_EQ(matched_without_asking(p), 0u);
  EXPECT_EQ(matched(p), 2u);
  check();
}

TEST_F(CacheShare, OnlySoMuchIsUnderWay) {
  start(with_remote({.device_blocks = 128, .disk_blocks = 0}));
  const Prompt p = prompt(1, 100);
  put(p, 0, 100);
  const SessionId session = cache_->open_session();
  cache_->acquire(session, 1, space_, p.keys, {}, [](std::vector<AcquiredBlock>) {});
  while (accelerator_.under_way() > 0) finish_copy();
  finish_remote();
  finish_remote();
  EXPECT_EQ(remote_->under_way().size(), 64u);
  check();
  finish_everything();
  EXPECT_EQ(in_redis_.values.size(), 100u);
  check();
}

TEST_F(CacheShare, WhatTheServerForgotIsSharedAgain) {
  start(with_remote());
  const Prompt p = prompt(1, 3);
  put(p, 0, 3);
  EXPECT_EQ(get(p.keys), 3u);
  finish_everything();
  const std::size_t writes = remote_->writes();
  in_redis_.values.clear();
  EXPECT_EQ(get(p.keys), 3u);
  finish_everything();
  tick(61'000);
  EXPECT_EQ(get(p.keys), 3u);
  finish_everything();
  EXPECT_EQ(in_redis_.values.size(), 3u);
  EXPECT_EQ(remote_->writes(), writes + 3);
  check();
}

TEST_F(CacheShare, ADrainDoesNotWaitForIt) {
  start(with_remote());
  const Prompt p = prompt(1, 3);
  put(p, 0, 3);
  const SessionId session = cache_->open_session();
  cache_->acquire(session, 1, space_, p.keys, {}, [](std::vector<AcquiredBlock>) {});
  while (accelerator_.under_way() > 0) finish_copy();
  finish_remote();
  bool drained = false;
  cache_->drain([&] { drained = true; });
  while (!disk_->under_way().empty()) {
    finish_disk();
    tick(100);
  }
  EXPECT_TRUE(drained);
  EXPECT_FALSE(remote_->under_way().empty());
  check();
  finish_everything();
  check();
}

}  // namespace
}  // namespace terrace::storage
