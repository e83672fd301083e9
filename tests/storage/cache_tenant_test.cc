// Quotas and shares of tenants.
#include <algorithm>

#include "core/checksum.h"
#include "storage/cache/tenants.h"
#include "tests/storage/support/cache_fixture.h"

namespace terrace::storage {
namespace {

class CacheTenant : public CacheFixture {
 protected:
  static constexpr std::uint64_t record_bytes = test_block_bytes + 4096;

  static constexpr std::uint64_t any = 1000;  // blocks: no quota
  static TenantQuota quota(const std::string& name, std::uint64_t device_blocks,
                           std::uint64_t disk_blocks = any) {
    const auto bytes = [](std::uint64_t blocks, std::uint64_t of_one) {
      return blocks == any ? no_quota : blocks * of_one;
    };
    return {name,
            {bytes(device_blocks, test_block_bytes), no_quota, bytes(disk_blocks, record_bytes)}};
  }

  // From here on prompts, puts and gets are of this tenant's space.
  void as(const std::string& tenant) {
    SpaceDescriptor space = descriptor();
    space.tenant = tenant;
    space_ = *cache_->open_space(space);
    digest_ = space.digest();
  }
  std::size_t put_singles(int first, int count) {
    std::size_t sealed = 0;
    for (int i = first; i < first + count; ++i) {
      sealed += put(prompt(i, 1), 0, 1);
      finish_everything();
      clock_.advance_ms(1);
    }
    return sealed;
  }
  std::size_t in(BlockState state, int first, int count) const {
    std::size_t found = 0;
    for (int i = first; i < first + count; ++i) found += states(prompt(i, 1))[0] == state;
    return found;
  }
  std::uint64_t blocks_used(const std::string& tenant, Tier tier) const {
    const std::uint64_t unit = tier == Tier::disk ? record_bytes : test_block_bytes;
    for (const TenantStats& one : cache_->stats().tenants)
      if (one.name == tenant) return one.used_bytes[static_cast<std::size_t>(tier)] / unit;
    return UINT64_MAX;
  }
};

TEST_F(CacheTenant, WhoReachesHisQuotaGivesUpHisOwn) {
  start({.device_blocks = 16, .tenants = {quota("a", 4, 6)}});
  as("b");
  EXPECT_EQ(put_singles(1, 4), 4u);
  as("a");
  EXPECT_EQ(put_singles(1, 12), 12u);
  EXPECT_EQ(blocks_used("a", Tier::device), 4u);
  EXPECT_EQ(cache_->stats().tenants.at(1).quota_bytes[0], 4 * test_block_bytes);
  EXPECT_EQ(cache_->stats().tenants.at(1).quota_bytes[1], no_quota);
  EXPECT_EQ(blocks_used("a", Tier::disk), 6u);
  EXPECT_EQ(in(BlockState::device, 9, 4), 4u);  // his newest
  EXPECT_EQ(in(BlockState::disk, 7, 2), 2u);
  EXPECT_EQ(in(BlockState::absent, 1, 6), 6u);
  as("b");
  EXPECT_EQ(in(BlockState::device, 1, 4), 4u);
  check();
}

TEST_F(CacheTenant, WhoHoldsHisQuotaGetsNothingAndPushesNobodyOut) {
  start({.device_blocks = 8, .tenants = {quota("a", 2)}});
  as("b");
  put_singles(1, 6);
  as("a");
  const SessionId session = cache_->open_session();
  EXPECT_EQ(cache_->reserve(session, 1, space_, {}, 5).size(), 2u);
  EXPECT_TRUE(cache_->reserve(session, 2, space_, {}, 1).empty());
  cache_->release(session, 1);
  EXPECT_EQ(cache_->reserve(session, 2, space_, {}, 1).size(), 1u);
  as("b");
  EXPECT_EQ(in(BlockState::device, 1, 6), 6u);
  check();
}

TEST_F(CacheTenant, AFullTierTakesFromWhoHasMostOverHisShare) {
  // The others' share of the device is 16 - 8 blocks.
  start({.device_blocks = 16, .tenants = {quota("a", 8)}});
  as("x");
  put_singles(1, 14);
  as("a");
  put_singles(1, 8);  // newer than all of them, and yet all of his fit
  EXPECT_EQ(blocks_used("a", Tier::device), 8u);
  EXPECT_EQ(blocks_used("*", Tier::device), 8u);
  as("x");
  put_singles(20, 20);  // newer than a's, and yet none of his goes
  EXPECT_EQ(blocks_used("*", Tier::device), 8u);
  as("a");
  EXPECT_EQ(in(BlockState::device, 1, 8), 8u);
  check();
}

TEST_F(CacheTenant, TheDiskIsSharedAlike) {
  start({.device_blocks = 4, .disk_blocks = 10, .tenants = {quota("a", any, 5)}});
  as("a");
  put_singles(1, 5);
  as("x");
  put_singles(1, 20);
  EXPECT_EQ(blocks_used("*", Tier::disk), 5u);
  as("a");
  EXPECT_EQ(cache_->match(space_, prompt(1, 1).keys, {}).matched_blocks, 1u);
  EXPECT_EQ(blocks_used("a", Tier::disk), 5u);
  check();
}

TEST_F(CacheTenant, QuotasThatExceedATierShrinkAlike) {
  start({.device_blocks = 12, .disk_blocks = 100, .tenants = {quota("a", 12), quota("b", 24)}});
  as("b");
  put_singles(1, 12);
  as("a");
  put_singles(1, 20);
  EXPECT_EQ(blocks_used("a", Tier::device), 4u);
  EXPECT_EQ(blocks_used("b", Tier::device), 8u);
  check();
}

TEST_F(CacheTenant, AQuotaOfDirtyBlocksIsCopiedDownAhead) {
  start({.device_blocks = 16,
         .host_blocks = 16,
         .disk_blocks = 0,
         .clean_fraction = 0.25,
         .tenants = {quota("a", 4)}});
  as("a");
  EXPECT_EQ(put_singles(1, 12), 12u);
  EXPECT_EQ(blocks_used("a", Tier::device), 4u);
  EXPECT_GE(stats(Tier::host).blocks, 8u);
  EXPECT_EQ(in(BlockState::absent, 1, 12), 0u);
  check();
}

TEST_F(CacheTenant, ADiskQuotaThatHasNoRoomDoesNotStopOthers) {
  start({.device_blocks = 16, .tenants = {quota("a", any, 1)}});
  as("a");
  EXPECT_EQ(put(prompt(1, 3), 0, 3), 3u);  // the head fills the quota, and its tail needs it
  as("x");
  EXPECT_EQ(put(prompt(1, 3), 0, 3), 3u);
  finish_everything();
  EXPECT_EQ(blocks_used("a", Tier::disk), 1u);
  EXPECT_EQ(blocks_used("*", Tier::disk), 3u);
  EXPECT_EQ(cache_->drain_blocks_left(), 0u);
  check();
}

TEST_F(CacheTenant, WhatIsOnDiskIsCountedAfterARestart) {
  const Sizes sizes{.device_blocks = 4, .tenants = {quota("a", any, 3)}};
  start(sizes);
  as("a");
  put_singles(1, 3);
  start(sizes);
  EXPECT_EQ(blocks_used("a", Tier::disk), 3u);
  as("a");
  put_singles(10, 3);
  EXPECT_EQ(blocks_used("a", Tier::disk), 3u);
  check();
}

TEST(Tenants, ASharesIsTheQuotaOrWhatOthersLeave) {
  TenantQuota a{"a", {60, no_quota, no_quota}}, b{"b", {no_quota, no_quota, no_quota}};
  const Tenants tenants({a, b});
  ASSERT_EQ(tenants.size(), 3u);
  const TenantId of_a = tenants.id_of("a"), of_b = tenants.id_of("b");
  EXPECT_EQ(tenants.id_of("unknown"), Tenants::others);
  EXPECT_EQ(tenants.share(of_a, Tier::device, 100), 60u);
  EXPECT_EQ(tenants.share(of_b, Tier::device, 100), 20u);
  EXPECT_EQ(tenants.share(Tenants::others, Tier::device, 100), 20u);
  EXPECT_EQ(tenants.share(of_a, Tier::device, 30), 30u);
  EXPECT_EQ(tenants.share(of_b, Tier::device, 30), 0u);
  EXPECT_EQ(tenants.share(of_a, Tier::host, 90), 30u);
}

TEST(Tenants, TheOneMostOverItsShareIsFirst) {
  Tenants tenants({{"a", {10, 0, 0}}, {"b", {100, 0, 0}}, {"*", {50, 0, 0}}});
  tenants.add(tenants.id_of("a"), Tier::device, 20);
  tenants.add(tenants.id_of("b"), Tier::device, 110);
  tenants.add(Tenants::others, Tier::device, 50);
  EXPECT_EQ(tenants.over_share(Tier::device, 1000),
            (std::vector<TenantId>{tenants.id_of("a"), tenants.id_of("b")}));
}

}  // namespace
}  // namespace terrace::storage
