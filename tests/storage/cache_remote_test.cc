// Finding and loading what other hosts have.
#include "tests/storage/support/remote_fixture.h"

namespace terrace::storage {
namespace {

using CacheRemote = RemoteFixture;

TEST_F(CacheRemote, WhatOthersHaveIsFoundAndLoaded) {
  start(with_remote());
  const Prompt p = prompt(1, 4);
  write_elsewhere(p, 0, 4);
  EXPECT_EQ(matched_without_asking(p), 0u);
  EXPECT_EQ(matched(p), 4u);
  EXPECT_EQ(states(p)[3], BlockState::redis);
  check();
  const SessionId session = cache_->open_session();
  const auto got = get(session, 1, p.keys);
  ASSERT_EQ(got.size(), 4u);
  EXPECT_EQ(got[0].from, Tier::redis);
  check();
  EXPECT_EQ(states(p)[0], BlockState::device);
  EXPECT_EQ(stats(Tier::redis).hits, 4u);
  EXPECT_EQ(stats(Tier::redis).promotions, 4u);
  EXPECT_EQ(stats(Tier::disk).misses, 4u);
  EXPECT_EQ(remote_->lookups(), 1u) << "one question for all of them";
}

TEST_F(CacheRemote, NothingIsAskedInVain) {
  const Prompt local = (start(with_remote()), prompt(1, 2));
  put(local, 0, 2);
  finish_everything();
  const std::size_t lookups = remote_->lookups();
  const auto answered_at_once = [&](const Prompt& p, const char* why) {
    const int before = told_;
    look_up(p);
    EXPECT_EQ(told_, before + 1) << why;
    EXPECT_EQ(remote_->lookups(), lookups) << why;
  };
  answered_at_once(local, "all of it is here");
  Prompt without_tokens = prompt(2, 2);
  without_tokens.tokens.clear();
  answered_at_once(without_tokens, "no key is believed without its tokens");
  remote_->set_breaker(Breaker::open);
  answered_at_once(prompt(2, 2), "the breaker is open");
  remote_->set_breaker(Breaker::half_open);
  const int before = told_;
  look_up(prompt(2, 2), 0);
  EXPECT_EQ(told_, before + 1) << "there is no time";
  EXPECT_EQ(remote_->lookups(), lookups);

  const Prompt there = prompt(3, 2);
  write_elsewhere(there, 0, 2);
  EXPECT_EQ(matched(there), 2u);
  const std::size_t asked = remote_->lookups();
  look_up(there);
  EXPECT_EQ(told_, asked_);
  EXPECT_EQ(remote_->lookups(), asked) << "it was said a moment ago";

  start({});
  look_up(prompt(2, 2));
  EXPECT_EQ(told_, asked_) << "there is no such tier";
}

TEST_F(CacheRemote, SameQuestionsShareOneLookup) {
  start(with_remote());
  const Prompt p = prompt(1, 4);
  write_elsewhere(p, 0, 4);
  look_up(p);
  look_up(p);
  look_up(prompt(1, 3));  // the beginning of it
  look_up(prompt(1, 5));  // more of it
  EXPECT_EQ(remote_->lookups(), 2u);
  EXPECT_EQ(remote_stats().shared_lookups, 2u);
  finish_remote();
  EXPECT_EQ(told_, 3);
  finish_remote();
  EXPECT_EQ(told_, 4);
}

TEST_F(CacheRemote, OnlyWhatIsBehindTheLocalRunIsAskedFor) {
  start(with_remote());
  const Prompt p = prompt(1, 4);
  put(p, 0, 2);
  write_elsewhere(p, 2, 2);
  look_up(p);
  ASSERT_EQ(remote_->under_way().size(), 1u);
  EXPECT_EQ(remote_->under_way()[0].lookup.keys, std::vector(p.keys.begin() + 2, p.keys.end()));
  finish_remote();
  EXPECT_EQ(states(p), (std::vector{BlockState::device, BlockState::device, BlockState::redis,
                                    BlockState::redis}));
  EXPECT_EQ(get(p.keys), 4u);
  check();
}

TEST_F(CacheRemote, AnAnswerEndsAtTheFirstHole) {
  start(with_remote());
  const Prompt p = prompt(1, 4);
  write_elsewhere(p, 0, 4);
  in_redis_.values.erase(p.keys[2]);
  EXPECT_EQ(matched(p), 2u);
  EXPECT_EQ(states(p)[3], BlockState::absent);
  EXPECT_EQ(get(p.keys), 2u);
  check();
}

TEST_F(CacheRemote, AClientsKeysAreNotBelieved) {
  start(with_remote());
  Prompt p = prompt(1, 3);
  const Prompt other = prompt(2, 3);
  write_elsewhere(p, 0, 3);
  write_elsewhere(other, 0, 3);
  p.keys[1] = other.keys[1];
  EXPECT_EQ(matched(p), 1u);
  EXPECT_EQ(cache_->stats().known_blocks, 1u);
  p.tokens[0] ^= 1;
  p.keys = other.keys;
  EXPECT_EQ(matched(p), 0u);
  check();
}

TEST_F(CacheRemote, WhatIsGoneMeanwhileIsAMiss) {
  start(with_remote());
  const Prompt p = prompt(1, 4);
  write_elsewhere(p, 0, 4);
  EXPECT_EQ(matched(p), 4u);
  in_redis_.values.erase(p.keys[1]);
  EXPECT_EQ(get(p.keys), 1u);
  check();
  EXPECT_EQ(matched_without_asking(p), 1u);
  EXPECT_EQ(stats(Tier::redis).failures, 0u);
  EXPECT_EQ(stats(Tier::redis).misses, 1u);
  // Computed here, it makes the rest of use again.
  EXPECT_EQ(put(p, 1, 1), 1u);
  EXPECT_EQ(get(p.keys), 4u);
  check();
}

TEST_F(CacheRemote, NothingIsLoadedBelowWhatIsNotHere) {
  start(with_remote());
  const Prompt p = prompt(1, 4);
  write_elsewhere(p, 0, 4);
  EXPECT_EQ(matched(p), 4u);
  EXPECT_EQ(get(std::span(p.keys).last(2)), 0u);
  EXPECT_EQ(remote_->reads(), 0u);
  // A piece at a time is well.
  const SessionId session = cache_->open_session();
  EXPECT_EQ(get(session, 1, p.first(2)).size(), 2u);
  EXPECT_EQ(get(session, 1, std::span(p.keys).last(2)).size(), 2u);
  check();
}

TEST_F(CacheRemote, AHoleIsHealedByWhatOthersHave) {
  start(with_remote({.device_blocks = 4, .disk_blocks = 16}));
  const Prompt p = prompt(1, 3);
  put(p, 0, 3);
  finish_everything();
  put(prompt(2, 4), 0, 4);  // p is on disk only
  finish_everything();
  on_disk_.records.at(p.keys[1]).payload[7] ^= std::byte{1};
  write_elsewhere(p, 1, 1);
  EXPECT_EQ(get(p.keys), 1u);
  EXPECT_GT(cache_->stats().holes, 0u);
  check();
  EXPECT_EQ(matched(p), 3u);
  check();
  EXPECT_EQ(get(p.keys), 3u);
  EXPECT_EQ(cache_->stats().holes, 0u);
  check();
}

TEST_F(CacheRemote, WhatDoesNotVerifyIsNoAnswer) {
  start(with_remote());
  const Prompt p = prompt(1, 3);
  write_elsewhere(p, 0, 3);
  in_redis_.values.at(p.keys[1]).payload[100] ^= std::byte{1};
  EXPECT_EQ(matched(p), 3u);
  EXPECT_EQ(get(p.keys), 1u);
  EXPECT_EQ(stats(Tier::redis).corruptions, 1u);
  EXPECT_EQ(matched_without_asking(p), 1u);
  check();
}

TEST_F(CacheRemote, AnOpenBreakerHidesWhatIsOnlyThere) {
  start(with_remote());
  const Prompt p = prompt(1, 3);
  write_elsewhere(p, 0, 3);
  EXPECT_EQ(matched(p), 3u);
  remote_->set_breaker(Breaker::open);
  EXPECT_EQ(matched_without_asking(p), 0u);
  EXPECT_EQ(get(p.keys), 0u);
  EXPECT_EQ(remote_->reads(), 0u);
  remote_->set_breaker(Breaker::closed);
  EXPECT_EQ(get(p.keys), 3u);
  check();
}

TEST_F(CacheRemote, AnAnswerThatComesTooLateIsNotAwaited) {
  start(with_remote());
  const Prompt p = prompt(1, 2);
  write_elsewhere(p, 0, 2);
  look_up(p, 10);
  ASSERT_TRUE(cache_->next_deadline_ns().has_value());
  EXPECT_EQ(*cache_->next_deadline_ns(), clock_.monotonic_ns() + 10'000'000);
  clock_.advance_ms(9);
  cache_->run_deadlines();
  EXPECT_EQ(told_, 0);
  clock_.advance_ms(1);
  cache_->run_deadlines();
  EXPECT_EQ(told_, 1);
  EXPECT_EQ(remote_stats().late_lookups, 1u);
  finish_remote();
  EXPECT_EQ(told_, 1);
  check();
}

TEST_F(CacheRemote, ALoadThatComesTooLateCutsTheRun) {
  start(with_remote());
  const Prompt p = prompt(1, 3);
  write_elsewhere(p, 0, 3);
  EXPECT_EQ(matched(p), 3u);
  const SessionId session = cache_->open_session();
  std::optional<std::size_t> got;
  cache_->acquire(session, 1, space_, p.keys,
                  {.remote_deadline_ns = clock_.monotonic_ns() + 50'000'000},
                  [&](std::vector<AcquiredBlock> blocks) { got = blocks.size(); });
  finish_remote();  // the first
  EXPECT_FALSE(got.has_value());
  EXPECT_EQ(*cache_->next_deadline_ns(), remote_->under_way()[0].read.deadline_ns);
  clock_.advance_ms(50);
  cache_->run_deadlines();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(*got, 1u);
  EXPECT_EQ(remote_stats().cut_loads, 1u);
  check();
  // What comes late is of use for the next one.
  finish_everything();
  check();
  EXPECT_EQ(states(p)[2], BlockState::device);
  EXPECT_EQ(get(session, 2, p.keys).size(), 3u);
}

TEST_F(CacheRemote, ASecondAcquireOfTheSameLoadHasALimitOfItsOwn) {
  start(with_remote());
  const Prompt p = prompt(1, 1);
  write_elsewhere(p, 0, 1);
  EXPECT_EQ(matched(p), 1u);
  const SessionId session = cache_->open_session();
  std::vector<std::size_t> got;
  const auto acquire = [&](LeaseId lease, std::int64_t ms) {
    cache_->acquire(session, lease, space_, p.keys,
                    {.remote_deadline_ns = clock_.monotonic_ns() + ms * 1'000'000},
                    [&](std::vector<AcquiredBlock> blocks) { got.push_back(blocks.size()); });
  };
  acquire(1, 100);
  acquire(2, 20);
  EXPECT_EQ(remote_->reads(), 1u);
  clock_.advance_ms(20);
  cache_->run_deadlines();
  EXPECT_EQ(got, std::vector<std::size_t>{0});
  finish_remote();
  EXPECT_EQ(got, (std::vector<std::size_t>{0, 1}));
  check();
}

TEST_F(CacheRemote, ASessionMayEndWhileItsBlocksAreOnTheirWay) {
  start(with_remote());
  const Prompt p = prompt(1, 2);
  write_elsewhere(p, 0, 2);
  EXPECT_EQ(matched(p), 2u);
  const SessionId session = cache_->open_session();
  cache_->acquire(session, 1, space_, p.keys, {},
                  [](std::vector<AcquiredBlock>) { FAIL() << "nobody is there any more"; });
  cache_->end_session(session);
  check();
  finish_remote(1);
  finish_remote(0, Status(StatusCode::unavailable, "late"));
  check();
  EXPECT_EQ(cache_->stats().tiers[0].used_bytes, cache_->stats().tiers[0].blocks * 4096);
}

TEST_F(CacheRemote, WhatIsSealedMeanwhileTakesThePlaceOfALoad) {
  start(with_remote());
  const Prompt p = prompt(1, 2);
  write_elsewhere(p, 0, 2);
  EXPECT_EQ(matched(p), 2u);
  const SessionId session = cache_->open_session();
  std::size_t cut = 99;
  cache_->acquire(session, 1, space_, p.keys, {},
                  [&](std::vector<AcquiredBlock> blocks) { cut = blocks.size(); });
  EXPECT_EQ(put(session, 2, p, 0, 1), 1u) << "not a duplicate of what may never come";
  EXPECT_EQ(cut, 0u);
  check();
  finish_remote(0, Status(StatusCode::unavailable, "too slow"));
  check();
  EXPECT_EQ(states(p)[0], BlockState::device);
  finish_everything();
  EXPECT_EQ(get(session, 3, p.keys).size(), 2u);
  check();
}

TEST_F(CacheRemote, BeliefsEndAfterAWhile) {
  start(with_remote());
  const Prompt p = prompt(1, 3);
  write_elsewhere(p, 0, 3);
  EXPECT_EQ(matched(p), 3u);
  tick(9'000);
  const Prompt longer = prompt(1, 4);
  EXPECT_EQ(matched(longer), 3u) << "asks anew for all of it";
  tick(2'000);
  EXPECT_EQ(matched_without_asking(p), 3u) << "renewed";
  check();
  tick(8'000);
  EXPECT_EQ(matched_without_asking(p), 0u);
  EXPECT_EQ(cache_->stats().known_blocks, 0u);
  check();
}

TEST_F(CacheRemote, BeliefsAreBounded) {
  start(with_remote());
  constexpr std::size_t blocks = 4096;  // of one question
  for (int head = 1; head <= 5; ++head) {
    const Prompt p = prompt(head, blocks);
    for (const BlockKey& key : p.keys) in_redis_.values[key] = {};
    look_up(p);
    finish_remote();
    EXPECT_EQ(told_, asked_ - 1) << "not all of it in one turn";
    while (told_ < asked_) cache_->run_completions();
    EXPECT_EQ(matched_without_asking(p), blocks);
  }
  EXPECT_EQ(stats(Tier::redis).blocks, 16384u);
  EXPECT_EQ(matched_without_asking(prompt(1, blocks)), 0u);
  EXPECT_EQ(matched_without_asking(prompt(2, blocks)), blocks);
  check();
}

TEST_F(CacheRemote, WhatOnlyRedisHasHoldsNothingHere) {
  start(with_remote({.device_blocks = 4, .disk_blocks = 0}));
  const Prompt p = prompt(1, 3);
  put(p, 0, 1);
  write_elsewhere(p, 1, 2);
  EXPECT_EQ(matched(p), 3u);
  EXPECT_EQ(cache_->stats().holes, 0u);
  EXPECT_FALSE(cache_->pin(p.keys[2], {}).has_value());
  EXPECT_EQ(get(p.first(1)), 1u);
  // Its head may go although Redis is said to have what is below.
  EXPECT_EQ(put(prompt(2, 4), 0, 4), 4u);
  EXPECT_EQ(matched_without_asking(p), 0u);
  check();
  tick(11'000);
  EXPECT_EQ(cache_->stats().known_blocks, 4u);
  check();
}

TEST_F(CacheRemote, WhatOnlyRedisHasMayBeComputed) {
  start(with_remote());
  const Prompt p = prompt(1, 2);
  write_elsewhere(p, 0, 2);
  EXPECT_EQ(matched(p), 2u);
  const SessionId session = cache_->open_session();
  EXPECT_TRUE(cache_->claim(session, 1, space_, p.keys, 0).has_value());
  EXPECT_EQ(put(session, 2, p, 0, 2), 2u);
  EXPECT_EQ(states(p)[1], BlockState::device);
  check();
}

TEST_F(CacheRemote, WhatLoadsSlowerThanItComputesIsLeftOut) {
  start(with_remote());
  const Prompt slow = prompt(1, 1), p = prompt(2, 2);
  write_elsewhere(slow, 0, 1);
  write_elsewhere(p, 0, 2);
  EXPECT_EQ(matched(slow), 1u);
  const SessionId session = cache_->open_session();
  bool came = false;
  cache_->acquire(session, 1, space_, slow.keys, {},
                  [&](std::vector<AcquiredBlock>) { came = true; });
  clock_.advance_ms(100);
  finish_remote();
  ASSERT_TRUE(came);
  EXPECT_EQ(matched(p), 2u);
  EXPECT_GE(cache_->match(space_, p.keys, p.tokens).load_ns, 200'000'000u);
  EXPECT_EQ(get(session, 2, p.keys, {.prefill_tokens_per_second = 1000}).size(), 0u);
  EXPECT_EQ(get(session, 3, p.keys, {.prefill_tokens_per_second = 10}).size(), 2u);
}

TEST_F(CacheRemote, DeviceMemoryOutOfReachIsFilledThroughTheHost) {
  start(with_remote({.host_blocks = 8, .host_accessible = false}));
  const Prompt p = prompt(1, 3);
  write_elsewhere(p, 0, 3);
  EXPECT_EQ(matched(p), 3u);
  const SessionId session = cache_->open_session();
  std::size_t got = 0;
  cache_->acquire(session, 1, space_, p.keys, {},
                  [&](std::vector<AcquiredBlock> blocks) { got = blocks.size(); });
  check();
  finish_remote(1, Status(StatusCode::not_found, "evicted"));
  check();
  finish_everything();
  check();
  EXPECT_EQ(got, 1u);
  EXPECT_EQ(stats(Tier::host).blocks, 2u);
  EXPECT_EQ(stats(Tier::redis).promotions, 2u);
  EXPECT_EQ(matched(p), 3u);
  EXPECT_EQ(get(session, 2, p.keys).size(), 3u);
  check();
}

TEST_F(CacheRemote, WithoutAHostTierDeviceMemoryOutOfReachIsNotFilled) {
  start(with_remote({.host_accessible = false}));
  const Prompt p = prompt(1, 1);
  write_elsewhere(p, 0, 1);
  look_up(p);
  EXPECT_EQ(told_, 1);
  EXPECT_EQ(remote_->lookups(), 0u);
}

TEST_F(CacheRemote, WhatCameIsWrittenToDiskLikeWhatWasSealed) {
  start(with_remote());
  const Prompt p = prompt(1, 2);
  write_elsewhere(p, 0, 2);
  EXPECT_EQ(matched(p), 2u);
  EXPECT_EQ(get(p.keys), 2u);
  finish_everything();
  EXPECT_TRUE(on_disk_.records.contains(p.keys[1]));

  move_to_another_host(with_remote({.disk_write = WritePolicy::on_second_use}));
  EXPECT_EQ(matched(p), 2u);
  EXPECT_EQ(get(p.keys), 2u);
  finish_everything();
  EXPECT_TRUE(on_disk_.records.empty()) << "used once on this host";
  EXPECT_EQ(get(p.keys), 2u);
  finish_everything();
  EXPECT_EQ(on_disk_.records.size(), 2u);
  check();
}

TEST_F(CacheRemote, ADroppedSpaceIsErasedThereWhoeverWroteIt) {
  start(with_remote());
  const Prompt loaded = prompt(1, 2), seen = prompt(2, 2), unknown = prompt(3, 1);
  for (const Prompt* p : {&loaded, &seen}) write_elsewhere(*p, 0, 2);
  write_elsewhere(unknown, 0, 1);
  in_redis_.values[BlockKey{{1}}].space = BlockKey{{2}};
  EXPECT_EQ(matched(loaded), 2u);
  EXPECT_EQ(get(loaded.keys), 2u);
  EXPECT_EQ(matched(seen), 2u);
  const SessionId session = cache_->open_session();
  cache_->acquire(session, 1, space_, seen.keys, {}, [](std::vector<AcquiredBlock>) {});
  std::optional<Status> done;
  cache_->drop_space(digest_, [&](const Status& status) { done = status; });
  check();
  finish_remote();  // what was being loaded
  finish_remote();
  check();
  ASSERT_EQ(remote_->under_way().size(), 1u);
  EXPECT_FALSE(done) << "not before Redis has answered";
  EXPECT_EQ(put(prompt(4, 1), 0, 1), 0u) << "what is dropped takes nothing";
  finish_everything();
  tick();
  finish_everything();
  ASSERT_TRUE(done);
  EXPECT_EQ(done->to_string(), "ok");
  check();
  EXPECT_EQ(in_redis_.values.size(), 1u) << "what is another space's stays";
  cache_->end_session(session);
  check();
  EXPECT_EQ(cache_->stats().known_blocks, 0u);
  EXPECT_EQ(put(prompt(4, 1), 0, 1), 1u);
}

TEST_F(CacheRemote, ADropSaysIfRedisMayHaveSomethingLeft) {
  start(with_remote());
  const Prompt p = prompt(1, 1);
  put(p, 0, 1);
  write_elsewhere(p, 0, 1);
  const auto drop = [this] {
    std::optional<Status> done;
    cache_->drop_space(digest_, [&](const Status& status) { done = status; });
    if (!remote_->under_way().empty())
      finish_remote(0, Status(StatusCode::unavailable, "no answer"));
    tick();
    finish_everything();
    return done;
  };
  for (const Breaker breaker : {Breaker::open, Breaker::closed}) {
    remote_->set_breaker(breaker);
    const auto done = drop();
    ASSERT_TRUE(done);
    EXPECT_EQ(done->code(), StatusCode::unavailable);
    EXPECT_EQ(cache_->stats().known_blocks, 0u) << "here it is gone all the same";
    EXPECT_EQ(in_redis_.values.size(), 1u);
    check();
  }
}

}  // namespace
}  // namespace terrace::storage
