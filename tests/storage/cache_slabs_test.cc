// Several sizes of blocks in one arena: memory goes to who needs it.
#include <algorithm>
#include <map>

#include "core/checksum.h"
#include "tests/storage/support/cache_fixture.h"

namespace terrace::storage {
namespace {

// An arena of 4 slabs of 4 small blocks, or of 2 large ones, each.
class CacheSlabs : public CacheFixture {
 protected:
  static constexpr std::uint64_t large_bytes = 2 * test_block_bytes;

  void start_two(std::size_t disk_blocks = 256) {
    start({.device_blocks = 16, .disk_blocks = disk_blocks});
    large_ = *cache_->open_space(descriptor("large", large_bytes));
  }

  // A small block that is a prompt of its own: whether there was a slot for it.
  bool put_small(int head) {
    const bool sealed = put(prompt(head, 1), 0, 1) == 1;
    finish_everything();
    clock_.advance_ms(1);
    return sealed;
  }
  // Fills the arena with the small prompts 0 to 15; one in each slab is the most recently used.
  std::vector<int> fill_and_heat_one_in_each_slab() {
    std::map<std::uint64_t, int> by_slab;
    for (int i = 0; i < 16; ++i) EXPECT_TRUE(put_small(i));
    for (int i = 0; i < 16; ++i) {
      const SessionId session = cache_->open_session();
      const auto got = get(session, 1, prompt(i, 1).keys);
      by_slab[got.at(0).slot / (4 * test_block_bytes)] = i;
      cache_->end_session(session);
      clock_.advance_ms(1);
    }
    std::vector<int> hot;
    for (const auto& [slab, head] : by_slab) {
      hot.push_back(head);
      EXPECT_EQ(get(prompt(head, 1).keys), 1u);
      clock_.advance_ms(1);
    }
    EXPECT_EQ(hot.size(), 4u);
    return hot;
  }

  // A first block of the large space: whether there was a slot for it.
  bool put_large(int head) {
    const SessionId session = cache_->open_session();
    const auto slots = cache_->reserve(session, 1, large_, {}, 1);
    if (!slots.empty()) {
      const BlockKey space = descriptor("large", large_bytes).digest();
      SealRequest request;
      request.slot = slots[0];
      request.parent = space;
      request.tokens = {head, 2, 3, 4};
      const auto bytes = contents(derive_block_key(space, request.tokens), large_bytes);
      std::ranges::copy(bytes, slot_bytes(slots[0], large_bytes).begin());
      request.checksum = payload_checksum(bytes);
      EXPECT_EQ(cache_->seal(session, 1, std::span(&request, 1))[0], SealOutcome::sealed);
    }
    cache_->end_session(session);
    finish_everything();
    clock_.advance_ms(1);
    return !slots.empty();
  }

  SpaceId large_ = 0;
};

TEST_F(CacheSlabs, AFewHotBlocksInEverySlabMoveTogether) {
  start_two();
  const std::vector<int> hot = fill_and_heat_one_in_each_slab();
  int had = 0;
  for (int i = 0; i < 6; ++i) had += put_large(i);
  EXPECT_GE(had, 4);
  EXPECT_GT(accelerator_.copies(), 0u);
  for (const int i : hot) EXPECT_EQ(states(prompt(i, 1))[0], BlockState::device) << i;
  for (const int i : hot) EXPECT_EQ(get(prompt(i, 1).keys), 1u);  // their bytes, too
  check();
}

TEST_F(CacheSlabs, TwoSizesThatAlternateLoseNoMemory) {
  start_two();
  for (int round = 1; round <= 20; ++round) {
    // Each in turn gets all of the arena.
    for (int i = 0; i < 40; ++i) put_small(1000 * round + i);
    EXPECT_EQ(stats(Tier::device).blocks, 16u) << "round " << round;
    for (int i = 0; i < 40; ++i) put_large(100 * round + i);
    EXPECT_EQ(stats(Tier::device).blocks, 8u) << "round " << round;
    EXPECT_EQ(stats(Tier::device).used_bytes, 16 * test_block_bytes) << "round " << round;
    check();
    // And something of both.
    for (int i = 0; i < 7; ++i) put_small(1000 * round + 500 + i), put_large(100 * round + 50 + i);
    check();
  }
}

TEST_F(CacheSlabs, WhatIsHeldDoesNotMove) {
  start_two();
  for (int i = 0; i < 16; ++i) ASSERT_TRUE(put_small(i));
  const SessionId session = cache_->open_session();
  std::vector<AcquiredBlock> held;
  for (LeaseId lease = 1; lease <= 16; ++lease) {
    const auto got = get(session, lease, prompt(static_cast<int>(lease) - 1, 1).keys);
    ASSERT_EQ(got.size(), 1u);
    held.push_back(got[0]);
  }
  // Of each slab one stays held.
  std::vector<bool> kept(4, false);
  std::vector<std::size_t> still;
  for (std::size_t i = 0; i < 16; ++i) {
    const std::size_t slab = held[i].slot / (4 * test_block_bytes);
    if (kept[slab])
      cache_->release(session, i + 1);
    else
      still.push_back(i);
    kept[slab] = true;
  }
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(put_large(i));
  for (const std::size_t i : still)
    EXPECT_TRUE(holds(held[i].slot, prompt(static_cast<int>(i), 1).keys[0]));
  check();
}

TEST_F(CacheSlabs, ABlockThatIsAcquiredWhileItMovesStaysWhereItIs) {
  start_two();
  fill_and_heat_one_in_each_slab();
  const SessionId session = cache_->open_session();
  // Makes room until blocks begin to move, and stops there.
  int tries = 0;
  for (; accelerator_.under_way() == 0 && tries < 20; ++tries)
    (void)cache_->reserve(session, 100 + static_cast<LeaseId>(tries), large_, {}, 1);
  ASSERT_GT(accelerator_.under_way(), 0u);
  std::vector<std::pair<SlotOffset, BlockKey>> held;
  for (int i = 0; i < 16; ++i) {
    if (states(prompt(i, 1))[0] != BlockState::device) continue;
    cache_->acquire(session, static_cast<LeaseId>(i + 1), space_, prompt(i, 1).keys, {},
                    [&, i](const auto& got) {
                      for (const auto& block : got)
                        held.emplace_back(block.slot, prompt(i, 1).keys[0]);
                    });
  }
  finish_everything();
  check();
  EXPECT_FALSE(held.empty());
  for (const auto& [slot, key] : held) EXPECT_TRUE(holds(slot, key));
  cache_->end_session(session);
  check();
}

TEST_F(CacheSlabs, WhoSealedABlockThatMovedIsCheckedLikeOthers) {
  start({.device_blocks = 16, .disk_blocks = 0, .verify = DeviceVerify::always});
  large_ = *cache_->open_space(descriptor("large", large_bytes));
  const SessionId sealer = cache_->open_session();
  std::map<int, SlotOffset> sealed_at;
  for (int i = 0; i < 16; ++i) {
    const auto slots = cache_->reserve(sealer, 1, space_, {}, 1);
    ASSERT_EQ(slots.size(), 1u);
    const Prompt one = prompt(i, 1);
    std::ranges::copy(contents(one.keys[0]), slot_bytes(slots[0]).begin());
    ASSERT_EQ(seal_one(sealer, 1, slots[0], one, 0)[0], SealOutcome::sealed);
    sealed_at[i] = slots[0];
    cache_->release(sealer, 1);
    clock_.advance_ms(1);
  }
  // One in each slab is used again, so that it moves and the others leave.
  std::map<std::uint64_t, int> by_slab;
  for (const auto& [i, slot] : sealed_at) by_slab[slot / (4 * test_block_bytes)] = i;
  for (const auto& [slab, i] : by_slab) {
    EXPECT_EQ(get(prompt(i, 1).keys), 1u);
    clock_.advance_ms(1);
  }
  for (int i = 0; i < 6; ++i) put_large(i);

  int moved = 0;
  for (const auto& [slab, i] : by_slab) {
    const SessionId reader = cache_->open_session();
    const auto got = get(reader, 1, prompt(i, 1).keys);
    cache_->end_session(reader);
    if (got.empty() || got[0].slot == sealed_at[i]) continue;
    ++moved;
    slot_bytes(got[0].slot)[7] ^= std::byte{1};
    EXPECT_TRUE(get(sealer, 2, prompt(i, 1).keys).empty());
  }
  EXPECT_GT(moved, 0);
  check();
}

TEST_F(CacheSlabs, AMoveThatFailsLosesNothing) {
  for (const auto fate : {ManualAccelerator::Fate::fails, ManualAccelerator::Fate::flips_a_bit}) {
    start_two();
    fill_and_heat_one_in_each_slab();
    const std::size_t copies = accelerator_.copies();
    const SessionId session = cache_->open_session();
    for (LeaseId lease = 1; lease < 20; ++lease) {
      (void)cache_->reserve(session, lease, large_, {}, 1);
      while (accelerator_.under_way() > 0) finish_copy(0, fate);
    }
    EXPECT_GT(accelerator_.copies(), copies);
    cache_->end_session(session);
    finish_everything();
    check();
    for (int i = 0; i < 16; ++i) {
      EXPECT_EQ(cache_->match(space_, prompt(i, 1).keys, {}).matched_blocks, 1u) << i;
      EXPECT_EQ(get(prompt(i, 1).keys), 1u) << i;
    }
    stop();
    on_disk_.records.clear();
  }
}

}  // namespace
}  // namespace terrace::storage
