// put and get: blocks copied in from and out to memory of a client that may write to it meanwhile.
#include <cstring>
#include <optional>

#include "tests/storage/support/cache_fixture.h"

namespace terrace::storage {
namespace {

using Outcomes = std::vector<PutOutcome>;

class CacheTransferTest : public CacheFixture {
 protected:
  static constexpr std::size_t max_staged = 32;

  std::span<std::byte> staged(std::size_t index) {
    return std::span(staging_).subspan(index * test_block_bytes, test_block_bytes);
  }

  // Puts blocks [from, from + count) of a prompt, whose bytes lie in the staging memory.
  void begin_put(const Prompt& prompt, std::size_t from, std::size_t count) {
    put_.reset();
    begin_put(prompt, from, count, 0, [this](Outcomes outcomes) { put_ = std::move(outcomes); });
  }
  void begin_put(const Prompt& prompt, std::size_t from, std::size_t count, std::size_t place,
                 PutCallback done) {
    PutRequest request;
    request.space = space_;
    request.parent = prompt.parent(from);
    for (std::size_t i = 0; i < count; ++i) {
      const auto bytes = contents(prompt.keys[from + i]);
      std::ranges::copy(bytes, staged(place + i).begin());
      request.sources.push_back(staged(place + i));
      request.checksums.push_back(payload_checksum(bytes));
      const auto tokens = prompt.block(from + i);
      request.tokens.insert(request.tokens.end(), tokens.begin(), tokens.end());
    }
    cache_->put(std::move(request), std::move(done));
  }
  Outcomes put_all(const Prompt& prompt, std::size_t from, std::size_t count) {
    begin_put(prompt, from, count);
    finish_everything();
    EXPECT_TRUE(put_.has_value());
    check();
    return put_.value_or(Outcomes());
  }

  TransferId begin_get(std::span<const BlockKey> keys, const AcquireOptions& options = {}) {
    GetRequest request;
    request.space = space_;
    request.keys.assign(keys.begin(), keys.end());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      std::memset(staged(i).data(), 0, test_block_bytes);
      request.destinations.push_back(staged(i));
    }
    got_.reset();
    return cache_->get(std::move(request), options,
                       [this](std::vector<GotBlock> blocks) { got_ = std::move(blocks); });
  }
  // How many came, which are right.
  std::size_t get_all(std::span<const BlockKey> keys) {
    begin_get(keys);
    finish_everything();
    EXPECT_TRUE(got_.has_value());
    check();
    for (std::size_t i = 0; got_ && i < got_->size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(staged(i), contents(keys[i]))) << i;
      EXPECT_EQ((*got_)[i].checksum, payload_checksum(contents(keys[i]))) << i;
    }
    return got_ ? got_->size() : 0;
  }
  void expect_nothing_held() {
    const CacheStats stats = cache_->stats();
    EXPECT_EQ(stats.leases, 0u);
    EXPECT_EQ(stats.reserved_slots, 0u);
    EXPECT_EQ(stats.sessions, 0u);
    EXPECT_EQ(stats.pending_blocks, 0u);
    check();
  }

  std::vector<std::byte> staging_ = std::vector<std::byte>(max_staged * test_block_bytes);
  std::optional<Outcomes> put_;
  std::optional<std::vector<GotBlock>> got_;
};

TEST_F(CacheTransferTest, WhatWasPutComesBackFromDeviceHostAndDisk) {
  start({.device_blocks = 8, .host_blocks = 8, .disk_blocks = 64});
  const Prompt prompt = this->prompt(1, 4);
  EXPECT_EQ(put_all(prompt, 0, 4), Outcomes(4, PutOutcome::stored));
  expect_nothing_held();
  EXPECT_EQ(get_all(prompt.keys), 4u);
  EXPECT_EQ(got_->front().from, Tier::device);
  // Others push it down.
  for (int other = 2; stats(Tier::host).blocks == 0 || cache_->inspect(prompt.keys[0])->device;
       ++other) {
    ASSERT_LT(other, 12);
    put_all(this->prompt(other, 4), 0, 4);
    tick();
  }
  EXPECT_EQ(get_all(prompt.keys), 4u);
  EXPECT_NE(got_->front().from, Tier::device);
  finish_everything();
  start({.device_blocks = 8, .host_blocks = 8, .disk_blocks = 64});
  EXPECT_EQ(get_all(prompt.keys), 4u);
  EXPECT_EQ(got_->front().from, Tier::disk);
  expect_nothing_held();
}

TEST_F(CacheTransferTest, PassesThroughDeviceMemoryThatTheCpuCannotTouch) {
  start({.host_accessible = false});
  const Prompt prompt = this->prompt(1, 3);
  EXPECT_EQ(put_all(prompt, 0, 3), Outcomes(3, PutOutcome::stored));
  // Each is looked at where it has arrived.
  EXPECT_EQ(accelerator_.checks(), 3u);
  EXPECT_EQ(get_all(prompt.keys), 3u);
}

TEST_F(CacheTransferTest, BytesThatChangeOnTheWayAreRefusedWithWhatFollowsThem) {
  start({});
  const Prompt prompt = this->prompt(1, 3);
  begin_put(prompt, 0, 3);
  staged(1)[100] ^= std::byte{1};
  finish_everything();
  ASSERT_TRUE(put_.has_value());
  EXPECT_EQ(*put_, (Outcomes{PutOutcome::stored, PutOutcome::refused, PutOutcome::unreachable}));
  EXPECT_EQ(get_all(prompt.keys), 1u);
  expect_nothing_held();
  EXPECT_EQ(put_all(prompt, 0, 3),
            (Outcomes{PutOutcome::present, PutOutcome::stored, PutOutcome::stored}));
}

TEST_F(CacheTransferTest, AChangeBehindACopyToTheDeviceIsSeen) {
  start({.host_accessible = false});
  begin_put(this->prompt(1, 1), 0, 1);
  // The copy's checksum is right; what has arrived is not.
  finish_copy(0);
  ASSERT_EQ(accelerator_.under_way(), 1u);
  slot_bytes(0)[0] ^= std::byte{1};
  finish_everything();
  EXPECT_EQ(put_, Outcomes{PutOutcome::refused});
  expect_nothing_held();
}

TEST_F(CacheTransferTest, AFailedCopyIsRefusedOrAMiss) {
  start({});
  const Prompt prompt = this->prompt(1, 2);
  begin_put(prompt, 0, 2);
  finish_copy(1, ManualAccelerator::Fate::fails);
  finish_everything();
  EXPECT_EQ(put_, (Outcomes{PutOutcome::stored, PutOutcome::refused}));
  put_all(prompt, 0, 2);
  begin_get(prompt.keys);
  finish_copy(1, ManualAccelerator::Fate::fails);
  finish_everything();
  ASSERT_TRUE(got_.has_value());
  EXPECT_EQ(got_->size(), 1u);
  EXPECT_EQ(get_all(prompt.keys), 2u);
  expect_nothing_held();
}

TEST_F(CacheTransferTest, WhatAClientWritesOverIsNoReasonToDropTheBlock) {
  start({});
  const Prompt prompt = this->prompt(1, 2);
  put_all(prompt, 0, 2);
  begin_get(prompt.keys);
  finish_copy(0, ManualAccelerator::Fate::flips_a_bit);
  finish_everything();
  ASSERT_TRUE(got_.has_value());
  EXPECT_TRUE(got_->empty());
  EXPECT_EQ(stats(Tier::device).corruptions, 0u);
  EXPECT_EQ(get_all(prompt.keys), 2u);
}

TEST_F(CacheTransferTest, ACorruptBlockIsAMissAndGoes) {
  start({.disk_blocks = 0});
  const Prompt prompt = this->prompt(1, 2);
  put_all(prompt, 0, 2);
  slot_bytes(cache_->inspect(prompt.keys[1])->device->slot)[7] ^= std::byte{4};
  EXPECT_EQ(get_all(prompt.keys), 1u);
  EXPECT_EQ(stats(Tier::device).corruptions, 1u);
  EXPECT_EQ(get_all(prompt.keys), 1u);
  EXPECT_EQ(put_all(prompt, 0, 2), (Outcomes{PutOutcome::present, PutOutcome::stored}));
  expect_nothing_held();
}

TEST_F(CacheTransferTest, AFullArenaStoresTheHeadAndNeverWaits) {
  start({.device_blocks = 4, .disk_blocks = 0});
  const SessionId worker = cache_->open_session();
  cache_->reserve(worker, 1, space_, {}, 2);
  const Prompt prompt = this->prompt(1, 4);
  EXPECT_EQ(put_all(prompt, 0, 4), (Outcomes{PutOutcome::stored, PutOutcome::stored,
                                             PutOutcome::no_room, PutOutcome::no_room}));
  cache_->end_session(worker);
  expect_nothing_held();
}

// Whoever knows the keys of another space neither waits for what is put there nor sees it.
TEST_F(CacheTransferTest, AnotherSpacesPutIsNothingToStandBehind) {
  start({});
  const Prompt prompt = this->prompt(1, 3);
  begin_put(prompt, 0, 2);
  ASSERT_FALSE(put_);
  const SpaceId space = space_;
  space_ = *cache_->open_space(descriptor("of another tenant"));
  std::optional<Outcomes> answer;
  begin_put(prompt, 2, 1, 2, [&](Outcomes outcomes) { answer = std::move(outcomes); });
  EXPECT_EQ(answer, Outcomes(1, PutOutcome::unreachable));
  space_ = space;
  finish_everything();
  EXPECT_EQ(put_, Outcomes(2, PutOutcome::stored));
  check();
}

TEST_F(CacheTransferTest, BlocksBehindNothingAreUnreachable) {
  start({});
  const Prompt prompt = this->prompt(1, 3);
  EXPECT_EQ(put_all(prompt, 1, 2), Outcomes(2, PutOutcome::unreachable));
  EXPECT_EQ(accelerator_.copies(), 0u);
  bool dropped = false;
  cache_->drop_space(digest_, [&](const Status&) { dropped = true; });
  EXPECT_EQ(get_all(prompt.keys), 0u);
  expect_nothing_held();
}

TEST_F(CacheTransferTest, TwoPutsOfTheSameBlocksAtOnceStoreThemOnce) {
  start({});
  const Prompt prompt = this->prompt(1, 2);
  begin_put(prompt, 0, 2);
  begin_put(prompt, 0, 2);
  EXPECT_EQ(accelerator_.under_way(), 4u);
  // The second one's.
  finish_copy(2);
  finish_copy(2);
  EXPECT_EQ(put_, Outcomes(2, PutOutcome::stored));
  finish_everything();
  EXPECT_EQ(put_, Outcomes(2, PutOutcome::present));
  EXPECT_EQ(stats(Tier::device).blocks, 2u);
  expect_nothing_held();
}

// As a client does that does not wait for one piece of a prompt before it puts the next.
TEST_F(CacheTransferTest, PiecesOfAPromptMayBeUnderWayTogetherAndEndInAnyOrder) {
  start({});
  const Prompt prompt = this->prompt(1, 6);
  std::vector<Outcomes> ended;
  const auto done = [&](Outcomes outcomes) { ended.push_back(std::move(outcomes)); };
  for (const std::size_t from : {0u, 2u, 4u}) begin_put(prompt, from, 2, from, done);
  ASSERT_EQ(accelerator_.under_way(), 6u);
  for (int last = 5; last > 0; --last) finish_copy(static_cast<std::size_t>(last));
  EXPECT_TRUE(ended.empty());
  finish_copy(0);
  EXPECT_EQ(ended, std::vector(3, Outcomes(2, PutOutcome::stored)));
  EXPECT_EQ(get_all(prompt.keys), 6u);
  expect_nothing_held();
  // What is behind a piece that fails is not to be found.
  const Prompt other = this->prompt(2, 4);
  ended.clear();
  begin_put(other, 0, 2, 0, done);
  begin_put(other, 2, 2, 2, done);
  finish_copy(1, ManualAccelerator::Fate::fails);
  finish_everything();
  ASSERT_EQ(ended.size(), 2u);
  EXPECT_EQ(ended[0], (Outcomes{PutOutcome::stored, PutOutcome::refused}));
  EXPECT_EQ(ended[1], Outcomes(2, PutOutcome::unreachable));
  expect_nothing_held();
}

TEST_F(CacheTransferTest, ACancelledGetHoldsNothing) {
  start({});
  const Prompt prompt = this->prompt(1, 2);
  const SessionId worker = cache_->open_session();
  cache_->reserve(worker, 1, space_, prompt.keys, 0);
  // One that waits for what another computes, then one whose copies are under way.
  const TransferId waiting = begin_get(prompt.keys, {.wait_ms = 60'000});
  EXPECT_FALSE(got_.has_value());
  cache_->cancel_get(waiting);
  cache_->end_session(worker);
  expect_nothing_held();
  put_all(prompt, 0, 2);
  const TransferId copying = begin_get(prompt.keys);
  EXPECT_EQ(accelerator_.under_way(), 2u);
  cache_->cancel_get(copying);
  EXPECT_EQ(cache_->stats().leases, 1u);
  finish_everything();
  EXPECT_FALSE(got_.has_value());
  cache_->cancel_get(copying);
  expect_nothing_held();
}

TEST_F(CacheTransferTest, ADrainTakesInNothingMore) {
  start({});
  const Prompt prompt = this->prompt(1, 1);
  begin_put(prompt, 0, 1);
  cache_->drain([] {});
  finish_everything();
  EXPECT_EQ(put_, Outcomes{PutOutcome::no_room});
  EXPECT_EQ(put_all(prompt, 0, 1), Outcomes{PutOutcome::no_room});
  expect_nothing_held();
}

TEST_F(CacheTransferTest, ACacheThatEndsLetsCopiesComeToTheirEnd) {
  start({});
  begin_put(this->prompt(1, 2), 0, 2);
  EXPECT_EQ(accelerator_.under_way(), 2u);
  stop();
  EXPECT_EQ(accelerator_.under_way(), 0u);
  EXPECT_FALSE(put_.has_value());
}

TEST_F(CacheTransferTest, WhatIsUnderWayIsALeaseOfNobodysSession) {
  start({});
  const Prompt p = prompt(1, 2);
  begin_put(p, 0, 2);
  EXPECT_EQ(cache_->stats().sessions, 0u);
  EXPECT_EQ(cache_->stats().leases, 1u);
  finish_everything();
  expect_nothing_held();
}

}  // namespace
}  // namespace terrace::storage
