#include "storage/arena/slab_arena.h"

#include <gtest/gtest.h>

#include <set>

namespace terrace::storage {
namespace {

constexpr std::uint64_t page = slot_alignment_bytes;

TEST(SlabArena, HandsOutEverySlotOnce) {
  SlabArena arena(8 * page, 4 * page);
  std::set<std::uint64_t> offsets;
  while (const auto offset = arena.allocate(page)) {
    EXPECT_EQ(*offset % page, 0u);
    EXPECT_LE(*offset + page, arena.capacity_bytes());
    EXPECT_TRUE(offsets.insert(*offset).second);
  }
  EXPECT_EQ(offsets.size(), 8u);
  EXPECT_EQ(arena.used_bytes(), 8 * page);
  EXPECT_EQ(arena.used_slots(page), 8u);
  EXPECT_EQ(arena.free_slots(page), 0u);
}

TEST(SlabArena, GivesASlabBackWhenAllOfItsSlotsAreFree) {
  SlabArena arena(8 * page, 4 * page);
  std::vector<std::uint64_t> small;
  while (const auto offset = arena.allocate(page)) small.push_back(*offset);
  EXPECT_FALSE(arena.allocate(2 * page));
  // Three free slots of a slab are no room for another size; the fourth makes it nobody's.
  for (int i = 0; i < 3; ++i) arena.free(small[static_cast<std::size_t>(i)]);
  EXPECT_FALSE(arena.allocate(2 * page));
  EXPECT_EQ(arena.free_slots(2 * page), 0u);
  arena.free(small[3]);
  EXPECT_EQ(arena.free_slots(2 * page), 2u);
  EXPECT_TRUE(arena.allocate(2 * page));
  EXPECT_TRUE(arena.allocate(2 * page));
  EXPECT_FALSE(arena.allocate(2 * page));
  EXPECT_FALSE(arena.allocate(page));
}

TEST(SlabArena, UsesASmallerLastSlab) {
  SlabArena arena(6 * page, 4 * page);
  EXPECT_EQ(arena.total_slots(page), 6u);
  EXPECT_EQ(arena.total_slots(3 * page), 1u);
  // The last slab does not fit three pages, whatever was taken before.
  EXPECT_TRUE(arena.allocate(3 * page));
  EXPECT_FALSE(arena.allocate(3 * page));
  EXPECT_TRUE(arena.allocate(2 * page));
}

TEST(SlabArena, UsesAnArenaSmallerThanASlab) {
  SlabArena arena(2 * page, 64 * page);
  EXPECT_TRUE(arena.allocate(page));
  EXPECT_TRUE(arena.allocate(page));
  EXPECT_FALSE(arena.allocate(page));
}

TEST(SlabArena, CountsFreeSlotsOfWhatIsInUseAndOfNobodys) {
  SlabArena arena(8 * page, 4 * page);
  EXPECT_EQ(arena.free_slots(page), 8u);
  const auto offset = arena.allocate(page);
  EXPECT_EQ(arena.free_slots(page), 7u);
  EXPECT_EQ(arena.free_slots(2 * page), 2u);
  arena.free(*offset);
  EXPECT_EQ(arena.free_slots(page), 8u);
  EXPECT_EQ(arena.used_bytes(), 0u);
}

// Slabs of 4 small slots or 2 large ones.
TEST(SlabArena, AClosedSlabGivesNothingAndGoesWithItsLastSlot) {
  constexpr std::uint64_t small = slot_alignment_bytes, large = 2 * small;
  SlabArena arena(12 * small, 4 * small);
  std::vector<std::uint64_t> slots;
  for (int i = 0; i < 12; ++i) slots.push_back(*arena.allocate(small));
  EXPECT_TRUE(arena.emptiest_slabs(large, 8).empty());  // all are full
  // One is left in the first slab, three in the second; the third is full.
  for (std::size_t i = 1; i < 4; ++i) arena.free(slots[i]);
  arena.free(slots[4]);
  const auto first = static_cast<std::uint32_t>(slots[0] / (4 * small));
  EXPECT_EQ(arena.emptiest_slabs(large, 8), std::vector<std::uint32_t>{first});
  EXPECT_TRUE(arena.emptiest_slabs(small, 8).empty());  // a slab of that size is no gain
  arena.close(first);
  EXPECT_EQ(arena.free_slots(small), 1u);
  EXPECT_EQ(arena.allocate(small), slots[4]);
  EXPECT_FALSE(arena.allocate(small));
  EXPECT_FALSE(arena.allocate(large));
  arena.open(first);
  EXPECT_EQ(arena.free_slots(small), 3u);
  arena.close(first);
  arena.free(slots[0]);
  EXPECT_EQ(arena.free_slots(large), 2u);
  EXPECT_TRUE(arena.allocate(large));
  arena.open(first);  // it is closed no more
  EXPECT_TRUE(arena.allocate(large));
  EXPECT_EQ(arena.used_bytes(), 12 * small);
}

// What few blocks are left in has no place elsewhere.
TEST(SlabArena, ASlabIsOnlyOfferedIfItsSlotsFitIntoOthers) {
  constexpr std::uint64_t small = slot_alignment_bytes, large = 2 * small;
  SlabArena arena(8 * small, 4 * small);
  std::vector<std::uint64_t> slots;
  for (int i = 0; i < 8; ++i) slots.push_back(*arena.allocate(small));
  for (std::size_t i = 2; i < 4; ++i) arena.free(slots[i]);
  EXPECT_TRUE(arena.emptiest_slabs(large, 8).empty());
  arena.free(slots[4]);
  EXPECT_TRUE(arena.emptiest_slabs(large, 8).empty());
  arena.free(slots[5]);
  EXPECT_EQ(arena.emptiest_slabs(large, 8).size(), 2u);
  EXPECT_EQ(arena.emptiest_slabs(large, 1).size(), 1u);
}

}  // namespace
}  // namespace terrace::storage
