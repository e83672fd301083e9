// An operator's holds on prefixes.
#include <algorithm>

#include "storage/cache/pin_table.h"
#include "tests/storage/support/cache_fixture.h"

namespace terrace::storage {
namespace {

class CachePin : public CacheFixture {
 protected:
  // Uses that would evict everything else.
  void put_many(int first, int prompts) {
    for (int i = first; i < first + prompts; ++i) {
      put(prompt(i, 2), 0, 2);
      finish_everything();
      clock_.advance_ms(1);
    }
  }
  std::uint32_t matched(const Prompt& p) {
    return cache_->match(space_, p.keys, {}).matched_blocks;
  }
  StatusCode pin(const BlockKey& key, const PinOptions& options = {}) {
    const auto pinned = cache_->pin(key, options);
    return pinned ? StatusCode::ok : pinned.error().code();
  }
};

TEST_F(CachePin, APrefixStaysToItsPinAndNoFurther) {
  start({.device_blocks = 4, .disk_blocks = 8});
  const Prompt a = prompt(1, 4);
  put(a, 0, 4);
  finish_everything();
  const auto pinned = cache_->pin(a.keys[2], {});
  ASSERT_TRUE(pinned) << pinned.error().to_string();
  EXPECT_EQ(pinned->blocks, 3u);
  EXPECT_EQ(pinned->bytes, 3 * test_block_bytes);
  EXPECT_TRUE(pinned->whole);
  put_many(10, 10);
  EXPECT_EQ(matched(a), 3u);
  check();
  ASSERT_TRUE(cache_->unpin(a.keys[2]).ok());
  put_many(30, 10);
  EXPECT_EQ(matched(a), 0u);
  EXPECT_EQ(cache_->unpin(a.keys[2]).code(), StatusCode::not_found);
  check();
}

TEST_F(CachePin, WithoutADiskItStaysInMemory) {
  start({.device_blocks = 6, .disk_blocks = 0});
  const Prompt a = prompt(1, 2);
  put(a, 0, 2);
  ASSERT_EQ(pin(a.keys[1]), StatusCode::ok);
  put_many(10, 10);
  EXPECT_EQ(matched(a), 2u);
  check();
}

TEST_F(CachePin, APinIsNoUse) {
  start({.device_blocks = 4, .disk_blocks = 0});
  const Prompt a = prompt(1, 1), b = prompt(2, 1);
  put(a, 0, 1);
  clock_.advance_ms(1);
  put(b, 0, 1);
  ASSERT_EQ(pin(a.keys[0]), StatusCode::ok);
  ASSERT_TRUE(cache_->unpin(a.keys[0]).ok());
  put(prompt(3, 3), 0, 3);
  EXPECT_EQ(matched(a), 0u);
  EXPECT_EQ(matched(b), 1u);
}

TEST_F(CachePin, ADevicePinKeepsTheCopyInTheDevice) {
  start({.device_blocks = 6, .disk_blocks = 16});
  const Prompt a = prompt(1, 2);
  put(a, 0, 2);
  finish_everything();
  ASSERT_EQ(pin(a.keys[1], {.tier = Tier::device}), StatusCode::ok);
  put_many(10, 10);
  EXPECT_EQ(states(a), std::vector<BlockState>(2, BlockState::device));
  // Changed to any tier, it need not.
  ASSERT_EQ(pin(a.keys[1]), StatusCode::ok);
  EXPECT_EQ(cache_->pins().size(), 1u);
  put_many(30, 10);
  EXPECT_EQ(states(a), std::vector<BlockState>(2, BlockState::disk));
  check();
}

TEST_F(CachePin, AHostPinGoesNoLowerThanTheHost) {
  start({.device_blocks = 4, .host_blocks = 6, .disk_blocks = 64, .clean_fraction = 0.5});
  const Prompt a = prompt(1, 2);
  put(a, 0, 2);
  finish_everything();
  ASSERT_EQ(pin(a.keys[1], {.tier = Tier::host}), StatusCode::ok);
  put_many(10, 20);
  for (const BlockState state : states(a)) EXPECT_LE(state, BlockState::host);
  EXPECT_EQ(matched(a), 2u);
  check();
}

TEST_F(CachePin, WhatIsPinnedIsWrittenWhateverThePolicySays) {
  start({.disk_write = WritePolicy::on_second_use});
  const Prompt a = prompt(1, 3);
  put(a, 0, 3);
  EXPECT_EQ(disk_->writes(), 0u);
  ASSERT_EQ(pin(a.keys[1]), StatusCode::ok);
  finish_everything();
  EXPECT_TRUE(on_disk_.records.contains(a.keys[0]));
  EXPECT_TRUE(on_disk_.records.contains(a.keys[1]));
  EXPECT_FALSE(on_disk_.records.contains(a.keys[2]));
  check();
}

TEST_F(CachePin, ABudgetThatIsExceededIsAnErrorThatChangesNothing) {
  start({.device_blocks = 16, .pinned_blocks = 4});
  const Prompt a = prompt(1, 3), b = prompt(1, 4, 1, 2), c = prompt(3, 2);
  for (const Prompt* p : {&a, &b, &c}) put(*p, 0, p->keys.size());
  put(b, 2, 2);
  finish_everything();
  ASSERT_EQ(pin(a.keys[2]), StatusCode::ok);
  EXPECT_EQ(pin(c.keys[1]), StatusCode::resource_exhausted);
  EXPECT_EQ(cache_->pins().size(), 1u);
  // Shares two of its three blocks with the other.
  EXPECT_EQ(pin(b.keys[2]), StatusCode::ok);
  EXPECT_EQ(cache_->stats().pinned_bytes, 4 * test_block_bytes);
  EXPECT_EQ(pin(b.keys[3]), StatusCode::resource_exhausted);
  // What is shared stays pinned by the other.
  ASSERT_TRUE(cache_->unpin(a.keys[2]).ok());
  EXPECT_EQ(cache_->stats().pinned_bytes, 3 * test_block_bytes);
  check();
}

TEST_F(CachePin, HalfOfAnArenaMayBePinnedToIt) {
  start({.device_blocks = 8, .host_blocks = 8, .disk_blocks = 0});
  const Prompt a = prompt(1, 5);
  put(a, 0, 5);
  EXPECT_EQ(pin(a.keys[4], {.tier = Tier::device}), StatusCode::resource_exhausted);
  EXPECT_EQ(pin(a.keys[3], {.tier = Tier::device}), StatusCode::ok);
  EXPECT_EQ(pin(a.keys[4], {.tier = Tier::host}), StatusCode::ok);
  EXPECT_EQ(cache_->pins()[0].tier.has_value(), true);
  finish_everything();
  check();
}

TEST_F(CachePin, RefusesWhatMakesNoSense) {
  start({});
  const Prompt a = prompt(1, 1);
  EXPECT_EQ(pin(a.keys[0]), StatusCode::not_found);
  put(a, 0, 1);
  EXPECT_EQ(pin(a.keys[0], {.tier = Tier::host}), StatusCode::invalid_argument);  // it is off
  EXPECT_EQ(pin(a.keys[0], {.tier = Tier::disk}), StatusCode::invalid_argument);
  EXPECT_EQ(pin(a.keys[0], {.expires_unix_ms = clock_.unix_ms()}), StatusCode::invalid_argument);
  EXPECT_TRUE(cache_->pins().empty());
}

TEST_F(CachePin, APinExpiresByTheClock) {
  start({.device_blocks = 4, .disk_blocks = 4});
  const Prompt a = prompt(1, 1);
  put(a, 0, 1);
  finish_everything();
  ASSERT_EQ(pin(a.keys[0], {.expires_unix_ms = clock_.unix_ms() + 10'000}), StatusCode::ok);
  tick(9'000);
  put_many(10, 10);
  EXPECT_EQ(matched(a), 1u);
  tick(2'000);
  EXPECT_TRUE(cache_->pins().empty());
  put_many(30, 10);
  EXPECT_EQ(matched(a), 0u);
  EXPECT_TRUE(on_disk_.notes.empty());
  check();
}

TEST_F(CachePin, PinsOutliveARestartAndTheirExpiryGoesOn) {
  start({.device_blocks = 4, .disk_blocks = 6});
  const Prompt a = prompt(1, 2), b = prompt(2, 1);
  put(a, 0, 2);
  put(b, 0, 1);
  finish_everything();
  ASSERT_EQ(pin(a.keys[1]), StatusCode::ok);
  ASSERT_EQ(pin(b.keys[0], {.expires_unix_ms = clock_.unix_ms() + 60'000}), StatusCode::ok);
  start({.device_blocks = 4, .disk_blocks = 6});
  EXPECT_EQ(cache_->pins().size(), 2u);
  put_many(10, 10);
  EXPECT_EQ(matched(a), 2u);
  EXPECT_EQ(matched(b), 1u);
  clock_.advance_ms(120'000);
  start({.device_blocks = 4, .disk_blocks = 6});
  tick();
  ASSERT_EQ(cache_->pins().size(), 1u);
  EXPECT_EQ(cache_->pins()[0].key, a.keys[1]);
  put_many(30, 10);
  EXPECT_EQ(matched(a), 2u);
  EXPECT_EQ(matched(b), 0u);
  check();
}

TEST_F(CachePin, APinHoldsAgainForBlocksThatWereLostAndComputedAnew) {
  start({.device_blocks = 4, .disk_blocks = 6});
  const Prompt a = prompt(1, 2);
  put(a, 0, 2);
  finish_everything();
  ASSERT_EQ(pin(a.keys[1]), StatusCode::ok);
  stop();
  on_disk_.records.clear();
  start({.device_blocks = 4, .disk_blocks = 6});
  ASSERT_EQ(cache_->pins().size(), 1u);
  EXPECT_FALSE(cache_->pins()[0].whole);
  put(a, 0, 2);
  finish_everything();
  EXPECT_TRUE(cache_->pins()[0].whole);
  put_many(10, 10);
  EXPECT_EQ(matched(a), 2u);
  check();
}

TEST_F(CachePin, AFullDiskOfPinsStillLetsTheDeviceWork) {
  start({.device_blocks = 8, .disk_blocks = 2});
  const Prompt a = prompt(1, 2), b = prompt(2, 8);
  put(a, 0, 2);
  finish_everything();
  ASSERT_EQ(pin(a.keys[1]), StatusCode::ok);
  put_many(10, 10);
  EXPECT_EQ(put(b, 0, 8), 8u);
  EXPECT_EQ(matched(a), 2u);
  check();
}

TEST(PinNote, ReadsWhatItWroteAndNothingElse) {
  Pin pin;
  pin.space.bytes.fill(1);
  pin.floor = PinFloor::host;
  pin.expires_unix_ms = 1'700'000'000'123;
  pin.slot_bytes = 8192;
  pin.chain.resize(3);
  for (std::size_t i = 0; i < 3; ++i) pin.chain[i].bytes.fill(static_cast<std::uint8_t>(i + 2));
  const std::string text = encode_pin(pin);
  const auto read = decode_pin(text);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->space, pin.space);
  EXPECT_EQ(read->floor, pin.floor);
  EXPECT_EQ(read->expires_unix_ms, pin.expires_unix_ms);
  EXPECT_EQ(read->slot_bytes, pin.slot_bytes);
  EXPECT_EQ(read->chain, pin.chain);
  for (std::size_t length = 0; length < text.size(); ++length) {
    const auto cut = decode_pin(text.substr(0, length));
    if (cut) {
      EXPECT_LT(cut->chain.size(), 3u);
    }
  }
  std::string other = text;
  other[0] = 9;
  EXPECT_FALSE(decode_pin(other));
}

}  // namespace
}  // namespace terrace::storage
