// Blocks that come from elsewhere, and looks at copies one by one.
#include "core/checksum.h"
#include "tests/storage/support/cache_fixture.h"

namespace terrace::storage {
namespace {

class CacheImport : public CacheFixture {
 protected:
  RecordHeader header_of(const Prompt& prompt, std::size_t i) const {
    RecordHeader header;
    header.space = digest_;
    header.key = prompt.keys[i];
    header.parent = prompt.parent(i);
    header.tokens = prompt.block(i);
    header.payload_bytes = header.stored_bytes = test_block_bytes;
    header.payload_checksum = header.stored_checksum = payload_checksum(contents(prompt.keys[i]));
    header.created_unix_ms = clock_.unix_ms() - 1000;
    return header;
  }
  ImportResult import(const RecordHeader& header, const std::vector<std::byte>& payload,
                      bool finish = true) {
    auto bytes = std::make_shared<std::vector<std::byte>>(payload);
    auto result = std::make_shared<ImportResult>();
    cache_->import_block(header, {bytes, bytes->data()},
                         [result](ImportResult got) { *result = std::move(got); });
    if (finish) finish_everything();
    return *result;
  }
  ImportOutcome import(const Prompt& prompt, std::size_t i) {
    return import(header_of(prompt, i), contents(prompt.keys[i])).outcome;
  }
  CopyCheck look(const BlockKey& key, Tier tier, bool remove = false) {
    CopyCheck check;
    cache_->check_copy(key, tier, remove, [&](CopyCheck got) { check = std::move(got); });
    finish_everything();
    return check;
  }
};

TEST_F(CacheImport, GoesToTheDiskPastTheTiersAboveAndIsServed) {
  start({.device_blocks = 4, .disk_blocks = 8});
  const Prompt there = prompt(1, 4), coming = prompt(2, 3);
  ASSERT_EQ(put(there, 0, 4), 4u);
  finish_everything();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(import(coming, i), ImportOutcome::imported);
  EXPECT_EQ(stats(Tier::device).blocks, 4u);
  EXPECT_EQ(stats(Tier::device).evictions, 0u);
  EXPECT_EQ(stats(Tier::disk).blocks, 7u);
  EXPECT_EQ(import(coming, 1), ImportOutcome::there);
  check();
  EXPECT_EQ(get(coming.keys), 3u);
  // The disk makes room as for any other.
  const Prompt more = prompt(3, 2);
  EXPECT_EQ(import(more, 0), ImportOutcome::imported);
  EXPECT_EQ(import(more, 1), ImportOutcome::imported);
  EXPECT_LE(stats(Tier::disk).blocks, 8u);
  check();
}

TEST_F(CacheImport, ABlockMayComeBehindOneThatIsOnItsWay) {
  for (const std::size_t disk_blocks : {8, 0}) {
    start({.device_blocks = 4, .disk_blocks = disk_blocks});
    const Prompt coming = prompt(2, 3);
    for (std::size_t i = 0; i < 3; ++i) {
      import(header_of(coming, i), contents(coming.keys[i]), false);
      check();
    }
    EXPECT_EQ(disk_ ? disk_->under_way().size() : accelerator_.under_way(), 3u);
    finish_everything();
    check();
    EXPECT_EQ(get(coming.keys), 3u);
    on_disk_ = {};
  }
}

TEST_F(CacheImport, ThoseUnderWayMayBeDoneInAnyOrder) {
  start({.device_blocks = 4, .disk_blocks = 8});
  const Prompt coming = prompt(2, 3);
  for (std::size_t i = 0; i < 2; ++i) import(header_of(coming, i), contents(coming.keys[i]), false);
  finish_disk(1);
  EXPECT_EQ(cache_->check_import(header_of(coming, 2)).outcome, ImportOutcome::wanted);
  EXPECT_EQ(import(coming, 2), ImportOutcome::imported);
  EXPECT_EQ(get(coming.keys), 3u);
  check();
}

TEST_F(CacheImport, WhatCameBehindABlockThatFailedIsOutOfReachUntilThatComes) {
  start({.device_blocks = 4, .disk_blocks = 8});
  const Prompt coming = prompt(2, 2);
  for (std::size_t i = 0; i < 2; ++i) import(header_of(coming, i), contents(coming.keys[i]), false);
  finish_disk(0, Status(StatusCode::io_error, "told to fail"));
  check();
  finish_everything();
  check();
  EXPECT_EQ(cache_->match(space_, coming.keys, {}).matched_blocks, 0u);
  EXPECT_EQ(import(coming, 0), ImportOutcome::imported);
  EXPECT_EQ(get(coming.keys), 2u);
  check();
}

TEST_F(CacheImport, WithoutADiskGoesToTheDeviceTier) {
  start({.device_blocks = 4, .disk_blocks = 0});
  const Prompt coming = prompt(2, 3);
  EXPECT_EQ(import(coming, 0), ImportOutcome::imported);
  EXPECT_EQ(import(coming, 1), ImportOutcome::imported);
  auto wrong = contents(coming.keys[2]);
  wrong[5] ^= std::byte{1};
  EXPECT_EQ(import(header_of(coming, 2), wrong).outcome, ImportOutcome::refused);
  check();
  EXPECT_EQ(get(coming.keys), 2u);
  // What is held is not pushed out for it.
  const SessionId session = cache_->open_session();
  ASSERT_EQ(get(session, 1, coming.first(2)).size(), 2u);
  ASSERT_EQ(cache_->reserve(session, 1, space_, {}, 2).size(), 2u);
  EXPECT_EQ(import(coming, 2), ImportOutcome::no_room);
  EXPECT_EQ(cache_->stats().known_blocks, 2u);
  check();
}

// A block whose copies have expired is known because of the one that follows it, which is younger:
// room for the block is made by evicting that, and the block goes with it.
TEST_F(CacheImport, AHoleMayGoWhileRoomIsMadeForIt) {
  constexpr std::int64_t hour_ms = 3'600'000;
  start({.device_blocks = 2, .disk_blocks = 0});
  cache_->set_max_ages({{"*", 2 * hour_ms}});
  const Prompt chain = prompt(1, 2);
  ASSERT_EQ(put(chain, 0, 1), 1u);
  clock_.advance_ms(hour_ms + hour_ms / 2);
  ASSERT_EQ(put(chain, 1, 1), 1u);
  clock_.advance_ms(hour_ms);
  for (int i = 0; i < 12; ++i) tick(1000);
  ASSERT_EQ(stats(Tier::device).blocks, 1u);
  const SessionId session = cache_->open_session();
  ASSERT_EQ(cache_->reserve(session, 1, space_, {}, 1).size(), 1u);
  EXPECT_EQ(import(chain, 0), ImportOutcome::no_room);
  EXPECT_EQ(cache_->stats().known_blocks, 0u);
  check();
}

TEST_F(CacheImport, TakesThePlaceOfWhatIsTooOld) {
  constexpr std::int64_t hour_ms = 3'600'000;
  start({.device_blocks = 4, .disk_blocks = 8});
  cache_->set_max_ages({{"*", 2 * hour_ms}});
  const Prompt old = prompt(1, 1);
  ASSERT_EQ(put(old, 0, 1), 1u);
  finish_everything();
  clock_.advance_ms(3 * hour_ms);
  EXPECT_EQ(import(old, 0), ImportOutcome::imported);
  EXPECT_EQ(get(old.keys), 1u);
  check();
}

TEST_F(CacheImport, OfWhatIsNotWhatItSaysNothingIsLeft) {
  start({.device_blocks = 4, .disk_blocks = 8});
  const Prompt coming = prompt(2, 3);
  const auto expect_refused = [&](const RecordHeader& header, const std::string& why) {
    const ImportResult result = import(header, contents(coming.keys[0]));
    EXPECT_EQ(result.outcome, ImportOutcome::refused) << why;
    EXPECT_NE(result.reason.find(why), std::string::npos) << result.reason;
  };
  RecordHeader header = header_of(coming, 0);
  header.space.bytes[0] ^= 1;
  expect_refused(header, "its space is not known");
  header = header_of(coming, 0);
  header.payload_bytes = header.stored_bytes = test_block_bytes * 2;
  expect_refused(header, "not the size");
  header = header_of(coming, 0);
  header.key = coming.keys[1];
  expect_refused(header, "not the key of its tokens");
  expect_refused(header_of(coming, 1), "the block before it is not there");
  auto wrong = contents(coming.keys[0]);
  wrong[100] ^= std::byte{1};
  EXPECT_EQ(import(header_of(coming, 0), wrong).outcome, ImportOutcome::refused);
  EXPECT_EQ(cache_->stats().known_blocks, 0u);
  check();
  // One that the disk does not take.
  import(header_of(coming, 0), contents(coming.keys[0]), false);
  EXPECT_EQ(cache_->check_import(header_of(coming, 0)).outcome, ImportOutcome::no_room);
  finish_disk(0, Status(StatusCode::io_error, "broken"));
  EXPECT_EQ(cache_->stats().known_blocks, 0u);
  check();
  EXPECT_EQ(import(coming, 0), ImportOutcome::imported);
}

TEST_F(CacheImport, MeetsASessionThatSealsTheSameBlock) {
  for (const std::size_t disk_blocks : {8u, 0u}) {
    start({.device_blocks = 4, .disk_blocks = disk_blocks});
    on_disk_ = {};
    const Prompt coming = prompt(2, 1);
    import(header_of(coming, 0), contents(coming.keys[0]), false);
    EXPECT_EQ(put(coming, 0, 1), disk_blocks > 0 ? 1u : 0u);
    finish_everything();
    check();
    EXPECT_EQ(get(coming.keys), 1u);
  }
}

TEST_F(CacheImport, ALookAtACopyChangesNothingUnlessItIsTold) {
  start({.device_blocks = 4, .disk_blocks = 8});
  const Prompt there = prompt(1, 2);
  ASSERT_EQ(put(there, 0, 2), 2u);
  finish_everything();
  const BlockKey& key = there.keys[1];
  EXPECT_TRUE(look(key, Tier::device).status.ok());
  EXPECT_TRUE(look(key, Tier::disk).status.ok());
  EXPECT_EQ(look(key, Tier::host).status.code(), StatusCode::not_found);
  slot_bytes(cache_->inspect(key)->device->slot)[3] ^= std::byte{1};
  on_disk_.records.at(key).payload[3] ^= std::byte{1};
  for (const Tier tier : {Tier::device, Tier::disk}) {
    EXPECT_EQ(look(key, tier).status.code(), StatusCode::corruption);
    EXPECT_EQ(look(key, tier).status.code(), StatusCode::corruption);
    EXPECT_TRUE(cache_->inspect(key)->block.tiers[static_cast<std::size_t>(tier)]);
  }
  EXPECT_TRUE(look(key, Tier::device, true).removed);
  EXPECT_FALSE(cache_->inspect(key)->device.has_value());
  EXPECT_TRUE(look(key, Tier::disk, true).removed);
  EXPECT_FALSE(cache_->inspect(key).has_value());
  EXPECT_TRUE(look(there.keys[0], Tier::disk, true).status.ok());
  check();
}

}  // namespace
}  // namespace terrace::storage
