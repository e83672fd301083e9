// Blocks may become only so old.
#include <algorithm>
#include <optional>

#include "core/block_age.h"
#include "core/checksum.h"
#include "tests/storage/support/cache_fixture.h"

namespace terrace::storage {
namespace {

constexpr std::int64_t hour_ms = 3'600'000;

class CacheAge : public CacheFixture {
 protected:
  void set_max_age(std::int64_t ms, const std::string& name = "*") {
    cache_->set_max_ages({{name, ms}});
  }
  std::uint32_t matched(const Prompt& prompt) const {
    return cache_->match(space_, prompt.keys, {}).matched_blocks;
  }
  // Until every block has been looked at.
  void pass_by() {
    for (int i = 0; i < 12; ++i) {
      tick(1000);
      finish_everything();
    }
  }
};

TEST_F(CacheAge, WhatIsTooOldIsAMissAtOnceAndThenGone) {
  start({.device_blocks = 8, .disk_blocks = 16});
  set_max_age(2 * hour_ms);
  const Prompt old = prompt(1, 3), young = prompt(2, 2);
  ASSERT_EQ(put(old, 0, 3), 3u);
  finish_everything();
  clock_.advance_ms(hour_ms);
  ASSERT_EQ(put(young, 0, 2), 2u);
  finish_everything();
  EXPECT_EQ(matched(old), 3u);
  clock_.advance_ms(hour_ms);
  EXPECT_EQ(matched(old), 0u);
  EXPECT_EQ(get(old.keys), 0u);
  EXPECT_EQ(cache_->match(space_, {}, std::span(old.tokens).first(3)).partial_tokens, 0u);
  EXPECT_EQ(matched(young), 2u);
  EXPECT_EQ(stats(Tier::disk).blocks, 5u);
  pass_by();
  EXPECT_EQ(stats(Tier::device).blocks, 2u);
  EXPECT_EQ(stats(Tier::disk).blocks, 2u);
  EXPECT_EQ(on_disk_.records.size(), 2u);
  EXPECT_EQ(cache_->stats().expired_blocks, 3u);
  EXPECT_EQ(get(young.keys), 2u);
  check();
}

// Not even to who waits for a session that computes it anew, and gives up.
TEST_F(CacheAge, WhoWaitsForAnotherGetsNothingThatIsTooOld) {
  start({.device_blocks = 8, .disk_blocks = 16});
  set_max_age(2 * hour_ms);
  const Prompt old = prompt(1, 3);
  ASSERT_EQ(put(old, 0, 3), 3u);
  finish_everything();
  clock_.advance_ms(3 * hour_ms);
  const SessionId computing = cache_->open_session(), waiting = cache_->open_session();
  ASSERT_EQ(cache_->reserve(computing, 1, space_, old.first(1), 0).size(), 1u);
  std::optional<std::size_t> came;
  cache_->acquire(waiting, 1, space_, old.keys, {.wait_ms = 1000},
                  [&](auto blocks) { came = blocks.size(); });
  EXPECT_FALSE(came);
  cache_->release(computing, 1);
  finish_everything();
  EXPECT_EQ(came, 0u);
  check();
}

TEST_F(CacheAge, GoesOnOverRestartsAndBeginsAnewWithTheBytes) {
  const Sizes sizes{.device_blocks = 4, .disk_blocks = 16, .disk_write = WritePolicy::on_evict};
  start(sizes);
  const Prompt old = prompt(1, 2);
  const std::int64_t sealed_unix_ms = clock_.unix_ms();
  ASSERT_EQ(put(old, 0, 2), 2u);
  clock_.advance_ms(3 * hour_ms);
  // Only now it goes to the disk, with the time at which it was sealed.
  for (int head = 2; head < 6; ++head) {
    ASSERT_EQ(put(prompt(head, 1), 0, 1), 1u);
    finish_everything();
    tick();
    finish_everything();
  }
  for (const BlockKey& key : old.keys) {
    const std::int64_t created = on_disk_.records.at(key).created_unix_ms;
    EXPECT_EQ(age_unit_of(created), age_unit_of(sealed_unix_ms));
  }
  start(sizes);
  set_max_age(4 * hour_ms);
  EXPECT_EQ(get(old.keys), 2u);  // a use makes nothing younger
  clock_.advance_ms(hour_ms);
  EXPECT_EQ(matched(old), 0u);
  // Computed again, though the old one is not erased yet and somebody holds it.
  ASSERT_EQ(put(old, 0, 2), 2u);
  finish_everything();
  EXPECT_EQ(matched(old), 2u);
  clock_.advance_ms(3 * hour_ms);
  EXPECT_EQ(get(old.keys), 2u);
  clock_.advance_ms(hour_ms);
  EXPECT_EQ(matched(old), 0u);
  pass_by();
  EXPECT_TRUE(std::ranges::none_of(
      old.keys, [&](const BlockKey& key) { return on_disk_.records.contains(key); }));
  check();
}

TEST_F(CacheAge, LeavesToALeaseWhatItHoldsAndHeedsNoPin) {
  start({.device_blocks = 8, .disk_blocks = 16});
  const Prompt old = prompt(1, 2);
  ASSERT_EQ(put(old, 0, 2), 2u);
  finish_everything();
  ASSERT_TRUE(cache_->pin(old.keys[1], {}).has_value());
  const SessionId session = cache_->open_session();
  const auto held = get(session, 1, old.keys);
  ASSERT_EQ(held.size(), 2u);
  set_max_age(hour_ms);
  clock_.advance_ms(2 * hour_ms);
  pass_by();
  EXPECT_TRUE(on_disk_.records.empty());
  EXPECT_EQ(stats(Tier::device).blocks, 0u);
  EXPECT_TRUE(holds(held[0].slot, old.keys[0]));
  check();
  // Whoever computes it anew seals it, whatever is held.
  ASSERT_EQ(put(old, 0, 2), 2u);
  EXPECT_EQ(matched(old), 2u);
  EXPECT_TRUE(holds(held[1].slot, old.keys[1]));
  cache_->end_session(session);
  finish_everything();
  check();
}

TEST_F(CacheAge, IsOfSpacesByLabelDigestOrForAllOthers) {
  start({.device_blocks = 8, .disk_blocks = 16});
  const Prompt old = prompt(1, 1);
  ASSERT_EQ(put(old, 0, 1), 1u);
  finish_everything();
  clock_.advance_ms(3 * hour_ms);
  const auto with = [&](std::vector<SpaceAge> ages) {
    cache_->set_max_ages(std::move(ages));
    return matched(old);
  };
  EXPECT_EQ(with({{"*", hour_ms}}), 0u);
  EXPECT_EQ(with({{"another", hour_ms}}), 1u);
  EXPECT_EQ(with({{"*", hour_ms}, {"model", 0}}), 1u);
  EXPECT_EQ(with({{"model", 5 * hour_ms}, {"*", hour_ms}}), 1u);
  EXPECT_EQ(with({{digest_.hex().substr(0, 8), hour_ms}, {"model", 5 * hour_ms}}), 0u);
  EXPECT_EQ(with({{digest_.hex().substr(0, 7), hour_ms}}), 1u);
  EXPECT_EQ(with({}), 1u);
}

TEST_F(CacheAge, HoldsForRedisToo) {
  start({.device_blocks = 8, .disk_blocks = 0, .remote = true, .redis_write = WritePolicy::behind});
  set_max_age(4 * hour_ms);
  const Prompt old = prompt(1, 2);
  ASSERT_EQ(put(old, 0, 2), 2u);
  clock_.advance_ms(hour_ms);
  finish_everything();
  tick();
  finish_everything();
  ASSERT_EQ(in_redis_.values.size(), 2u);
  const auto& value = in_redis_.values.at(old.keys[0]);
  EXPECT_LE(value.max_ttl_ms, 3 * hour_ms);
  EXPECT_GT(value.max_ttl_ms, 3 * hour_ms - 2 * age_unit_ms);
  // Another host that allows them to become less old.
  cache_.reset();
  start({.device_blocks = 8, .disk_blocks = 0, .remote = true});
  set_max_age(hour_ms);
  clock_.advance_ms(hour_ms);
  bool told = false;
  cache_->look_up(space_, old.keys, old.tokens, clock_.monotonic_ns() + 1'000'000'000,
                  [&] { told = true; });
  finish_everything();
  ASSERT_TRUE(told);
  EXPECT_EQ(matched(old), 2u);  // it is not known yet how old they are
  EXPECT_EQ(get(old.keys), 0u);
  EXPECT_TRUE(in_redis_.values.empty());
  check();
}

}  // namespace
}  // namespace terrace::storage
