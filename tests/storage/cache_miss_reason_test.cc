// Why blocks had to be computed, as far as a cache can say.
#include "tests/storage/support/remote_fixture.h"

namespace terrace::storage {
namespace {

class CacheMissReason : public RemoteFixture {
 protected:
  using Reasons = std::map<std::string, std::uint64_t>;

  // What a worker asks room for that had nothing of these keys: the reasons that are counted.
  Reasons reasons(std::span<const BlockKey> keys) {
    const auto before = cache_->stats().misses_by_reason;
    const SessionId session = cache_->open_session();
    cache_->reserve(session, 1, space_, keys, 0);
    cache_->end_session(session);
    const auto after = cache_->stats().misses_by_reason;
    Reasons counted;
    for (std::size_t i = 0; i < miss_reasons; ++i)
      if (after[i] != before[i]) counted[miss_reason_names[i]] = after[i] - before[i];
    return counted;
  }
};

TEST_F(CacheMissReason, WhatWasNeverThere) {
  start({});
  EXPECT_EQ(reasons(prompt(1, 3).keys), (Reasons{{"unseen", 3}}));
}

TEST_F(CacheMissReason, WhatMadeRoomForOthers) {
  start({.device_blocks = 4, .disk_blocks = 0});
  const Prompt a = prompt(1, 4);
  put(a, 0, 4);
  put(prompt(2, 4), 0, 4);
  ASSERT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 0u);
  EXPECT_EQ(reasons(a.keys), (Reasons{{"evicted", 4}}));
  // It is told once.
  EXPECT_EQ(reasons(a.first(1)), (Reasons{{"unseen", 1}}));
}

TEST_F(CacheMissReason, WhatOnlyLeftForTheDiskIsNoMiss) {
  start({.device_blocks = 4});
  const Prompt a = prompt(1, 4);
  put(a, 0, 4);
  finish_everything();
  put(prompt(2, 4), 0, 4);
  finish_everything();
  ASSERT_EQ(states(a), std::vector<BlockState>(4, BlockState::disk));
  EXPECT_EQ(reasons(a.keys), (Reasons{{"behind", 4}}));
}

TEST_F(CacheMissReason, WhatDidNotVerifyAndWhatCouldNotBeRead) {
  start({});
  const Prompt a = prompt(1, 3), b = prompt(2, 2);
  put(a, 0, 3);
  put(b, 0, 2);
  finish_everything();
  start({});
  on_disk_.records.at(a.keys[1]).payload[0] ^= std::byte{1};
  EXPECT_EQ(get(a.keys), 1u);
  EXPECT_EQ(reasons(std::span(a.keys).subspan(1)), (Reasons{{"corrupt", 1}, {"behind", 1}}));
  const SessionId session = cache_->open_session();
  cache_->acquire(session, 1, space_, b.first(1), {}, [](auto) {});
  finish_disk(0, Status(StatusCode::io_error, "told to fail"));
  EXPECT_EQ(reasons(b.first(1)), (Reasons{{"failed", 1}}));
}

TEST_F(CacheMissReason, WhatWasDropped) {
  start({});
  const Prompt a = prompt(1, 2);
  put(a, 0, 2);
  finish_everything();
  cache_->drop_space(digest_, [](const Status&) {});
  finish_everything();
  EXPECT_EQ(reasons(a.keys), (Reasons{{"dropped", 2}}));
}

TEST_F(CacheMissReason, WhatAnotherIsComputing) {
  start({});
  const Prompt a = prompt(1, 2);
  const SessionId other = cache_->open_session();
  cache_->reserve(other, 1, space_, a.first(1), 0);
  EXPECT_EQ(reasons(a.keys), (Reasons{{"pending", 1}, {"unseen", 1}}));
}

TEST_F(CacheMissReason, WhatIsSlowerThanComputing) {
  start({.device_blocks = 4});
  const Prompt a = prompt(1, 4), b = prompt(2, 4);
  for (const Prompt* p : {&a, &b}) {
    put(*p, 0, 4);
    finish_everything();
  }
  const SessionId session = cache_->open_session();
  cache_->acquire(session, 1, space_, a.keys, {}, [](auto) {});
  clock_.advance_ms(400);  // 100 ms a block
  finish_everything();
  cache_->end_session(session);
  ASSERT_EQ(states(b), std::vector<BlockState>(4, BlockState::disk));
  EXPECT_EQ(get(cache_->open_session(), 1, b.keys, {.prefill_tokens_per_second = 1000}).size(), 0u);
  EXPECT_EQ(reasons(b.keys), (Reasons{{"slower", 4}}));
}

TEST_F(CacheMissReason, WhatTheDeviceHadNoRoomFor) {
  start({.device_blocks = 4});
  const Prompt a = prompt(1, 4);
  put(a, 0, 4);
  finish_everything();
  put(prompt(2, 4), 0, 4);
  finish_everything();
  const SessionId session = cache_->open_session();
  ASSERT_EQ(cache_->reserve(session, 1, space_, {}, 2).size(), 2u);
  ASSERT_EQ(get(session, 2, a.keys).size(), 2u);
  EXPECT_EQ(reasons(std::span(a.keys).subspan(2)), (Reasons{{"no_room", 2}}));
}

TEST_F(CacheMissReason, WhatRedisBroughtTooLate) {
  start(with_remote());
  const Prompt p = prompt(1, 2);
  write_elsewhere(p, 0, 2);
  EXPECT_EQ(matched(p), 2u);
  const SessionId session = cache_->open_session();
  cache_->acquire(session, 1, space_, p.keys,
                  {.remote_deadline_ns = clock_.monotonic_ns() + 50'000'000}, [](auto) {});
  clock_.advance_ms(50);
  cache_->run_deadlines();
  EXPECT_EQ(reasons(p.first(1)), (Reasons{{"late", 1}}));
}

}  // namespace
}  // namespace terrace::storage
