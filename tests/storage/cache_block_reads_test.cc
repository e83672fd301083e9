// Payloads read out of the cache for operators: from any tier, verified, without moving anything.
#include "core/checksum.h"
#include "tests/storage/support/cache_fixture.h"

namespace terrace::storage {
namespace {

class CacheBlockReads : public CacheFixture {
 protected:
  Result<BlockPayload> read(const BlockKey& key) {
    Result<BlockPayload> got = error(StatusCode::internal, "not called");
    int calls = 0;
    cache_->read_block(key, [&](Result<BlockPayload> payload) {
      got = std::move(payload);
      ++calls;
    });
    finish_everything();
    EXPECT_EQ(calls, 1);
    return got;
  }

  static bool is_right(const Result<BlockPayload>& got, const BlockKey& key) {
    return got && got->block.key == key && got->checksum == payload_checksum(contents(key)) &&
           std::ranges::equal(std::span(got->bytes.get(), got->block.bytes), contents(key));
  }
};

TEST_F(CacheBlockReads, ComeFromTheHighestTierAndMoveNothing) {
  start({.device_blocks = 4, .disk_blocks = 16, .slab_blocks = 1});
  const Prompt first = prompt(1, 3);
  ASSERT_EQ(put(first, 0, 3), 3u);
  finish_everything();
  auto got = read(first.keys[1]);
  EXPECT_TRUE(is_right(got, first.keys[1]));
  EXPECT_EQ(got->tier, Tier::device);
  EXPECT_EQ(got->block.parent, first.keys[0]);
  // Others push it out of memory.
  ASSERT_EQ(put(prompt(2, 4), 0, 4), 4u);
  finish_everything();
  const std::uint64_t promotions = stats(Tier::disk).promotions;
  got = read(first.keys[1]);
  EXPECT_TRUE(is_right(got, first.keys[1]));
  EXPECT_EQ(got->tier, Tier::disk);
  EXPECT_EQ(stats(Tier::disk).promotions, promotions);
  EXPECT_FALSE(cache_->inspect(first.keys[1])->device.has_value());
  EXPECT_EQ(read(prompt(3, 1).keys[0]).error().code(), StatusCode::not_found);
}

TEST_F(CacheBlockReads, WhatDoesNotVerifyIsTakenFromBelowOrIsMissing) {
  start({.device_blocks = 4, .disk_blocks = 16});
  const Prompt first = prompt(1, 2);
  ASSERT_EQ(put(first, 0, 2), 2u);
  finish_everything();
  slot_bytes(cache_->inspect(first.keys[1])->device->slot)[9] ^= std::byte{1};
  auto got = read(first.keys[1]);
  EXPECT_TRUE(is_right(got, first.keys[1]));
  EXPECT_EQ(got->tier, Tier::disk);
  EXPECT_EQ(stats(Tier::device).corruptions, 1u);
  on_disk_.records.at(first.keys[1]).payload[5] ^= std::byte{1};
  got = read(first.keys[1]);
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().code(), StatusCode::corruption);
  EXPECT_FALSE(cache_->inspect(first.keys[1]).has_value());
}

TEST_F(CacheBlockReads, ManyAtOnceWaitAndTooManyAreRefused) {
  start({.device_blocks = 8});
  const Prompt first = prompt(1, 2);
  ASSERT_EQ(put(first, 0, 2), 2u);
  finish_everything();
  std::size_t good = 0, refused = 0;
  for (int i = 0; i < 70; ++i)
    cache_->read_block(first.keys[0], [&](const Result<BlockPayload>& payload) {
      ++(is_right(payload, first.keys[0]) ? good : refused);
    });
  EXPECT_EQ(accelerator_.under_way(), 4u);
  EXPECT_EQ(refused, 2u);
  // What is erased meanwhile is erased when nobody reads it any more.
  std::optional<std::uint64_t> evicted;
  cache_->evict_prefix(first.keys[1], [](const Result<std::uint64_t>&) {});
  cache_->evict_prefix(first.keys[0],
                       [&](const Result<std::uint64_t>& blocks) { evicted = blocks.value_or(99); });
  finish_everything();
  // Each was begun before the one before it was over.
  EXPECT_EQ(good, 68u);
  EXPECT_EQ(refused, 2u);
  EXPECT_EQ(evicted, 1u);
}

}  // namespace
}  // namespace terrace::storage
