#include "storage/disk/extent_allocator.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace terrace::storage {
namespace {

TEST(ExtentAllocator, TakesTheSmallestRunThatFitsAndCutsItsFront) {
  ExtentAllocator allocator;
  allocator.add_file(0, 100);
  allocator.add_file(1, 20);
  EXPECT_EQ(allocator.allocate(10), (Extent{1, 0, 10}));
  EXPECT_EQ(allocator.allocate(11), (Extent{0, 0, 11}));
  EXPECT_EQ(allocator.allocate(101), std::nullopt);
  EXPECT_EQ(allocator.used_units(), 21u);
}

TEST(ExtentAllocator, CoalescesWhatIsFreed) {
  ExtentAllocator allocator;
  allocator.add_file(0, 30);
  const Extent a = *allocator.allocate(10), b = *allocator.allocate(10),
               c = *allocator.allocate(10);
  allocator.free(a);
  allocator.free(c);
  EXPECT_EQ(allocator.allocate(20), std::nullopt);
  allocator.free(b);
  EXPECT_EQ(allocator.free_extents(), (std::vector<Extent>{{0, 0, 30}}));
}

TEST(ExtentAllocator, DoesNotCoalesceAcrossFiles) {
  ExtentAllocator allocator;
  allocator.add_file(0, 10);
  allocator.add_file(1, 10);
  EXPECT_EQ(allocator.allocate(11), std::nullopt);
}

TEST(ExtentAllocator, ClaimsOnlyWhatIsFree) {
  ExtentAllocator allocator;
  allocator.add_file(0, 100);
  EXPECT_TRUE(allocator.claim({0, 10, 10}));
  EXPECT_FALSE(allocator.claim({0, 10, 10}));
  EXPECT_FALSE(allocator.claim({0, 5, 6}));
  EXPECT_FALSE(allocator.claim({0, 19, 5}));
  EXPECT_FALSE(allocator.claim({0, 95, 6}));
  EXPECT_FALSE(allocator.claim({1, 0, 1}));
  EXPECT_FALSE(allocator.claim({0, 0xffffffff, 0xffffffff}));
  EXPECT_FALSE(allocator.claim({0, 50, 0}));
  EXPECT_TRUE(allocator.claim({0, 0, 10}));
  EXPECT_TRUE(allocator.claim({0, 20, 80}));
  EXPECT_EQ(allocator.used_units(), 100u);
}

TEST(ExtentAllocator, TakesRunsThatAreLongEnoughFromTheLowestAddressOn) {
  ExtentAllocator allocator;
  allocator.add_file(0, 100);
  // Free: 0-4, 10-29, 40-99.
  ASSERT_TRUE(allocator.claim({0, 4, 6}));
  ASSERT_TRUE(allocator.claim({0, 30, 10}));
  const auto runs = allocator.take_runs(50, 10, 8);
  EXPECT_EQ(runs, (std::vector<Extent>{{0, 10, 20}, {0, 40, 30}}));
  EXPECT_EQ(allocator.free_units(), 34u);
  EXPECT_EQ(allocator.take_runs(50, 10, 0), std::vector<Extent>{});
  for (const Extent& run : runs) allocator.free(run);
  EXPECT_EQ(allocator.take_runs(1000, 1, 2), (std::vector<Extent>{{0, 0, 4}, {0, 10, 20}}));
}

TEST(ExtentAllocator, AgreesWithABitmap) {
  constexpr std::uint32_t files = 3, units = 200;
  std::mt19937 random(1);
  ExtentAllocator allocator;
  std::vector<std::vector<bool>> used(files, std::vector<bool>(units));
  for (std::uint32_t file = 0; file < files; ++file) allocator.add_file(file, units);
  std::vector<Extent> held;
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 2 == 0) {
      const auto extent = allocator.allocate(1 + random() % 30);
      if (!extent) continue;
      ASSERT_LE(extent->end(), units);
      for (std::uint64_t at = extent->first; at < extent->end(); ++at) {
        ASSERT_FALSE(used[extent->file][at]);
        used[extent->file][at] = true;
      }
      held.push_back(*extent);
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      const Extent extent = held.back();
      held.pop_back();
      for (std::uint64_t at = extent.first; at < extent.end(); ++at) used[extent.file][at] = false;
      allocator.free(extent);
    }
    std::uint64_t count = 0;
    for (const Extent& extent : held) count += extent.units;
    ASSERT_EQ(allocator.used_units(), count);
  }
  for (const Extent& extent : held) allocator.free(extent);
  EXPECT_EQ(allocator.free_extents(),
            (std::vector<Extent>{{0, 0, units}, {1, 0, units}, {2, 0, units}}));
}

}  // namespace
}  // namespace terrace::storage
