#include "storage/disk/write_window.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace terrace::storage {
namespace {

bool covers(const std::vector<Extent>& runs, const Extent& extent) {
  return std::ranges::any_of(runs, [&](const Extent& run) {
    return run.file == extent.file && run.first <= extent.first && extent.end() <= run.end();
  });
}

class WriteWindowTest : public ::testing::Test {
 protected:
  WriteWindowTest() { allocator_.add_file(0, 1000); }
  ExtentAllocator allocator_;
  WriteWindow window_{100};
};

TEST_F(WriteWindowTest, GivesOnlyWhatTheIndexNames) {
  EXPECT_EQ(window_.allocate(10), std::nullopt);
  const auto named = window_.propose(allocator_, {});
  EXPECT_EQ(window_.allocate(10), std::nullopt);
  window_.confirm();
  const auto extent = window_.allocate(10);
  ASSERT_TRUE(extent);
  EXPECT_TRUE(covers(named, *extent));
  EXPECT_EQ(window_.free_units(), 90u);
}

TEST_F(WriteWindowTest, WhatIsAllocatedWhileItMovesOnIsInBothWindows) {
  const auto first = window_.propose(allocator_, {});
  window_.confirm();
  std::vector<Extent> in_use;
  for (int i = 0; i < 6; ++i) in_use.push_back(*window_.allocate(10));
  const auto second = window_.propose(allocator_, in_use);
  for (int i = 0; i < 4; ++i) {
    const auto meanwhile = window_.allocate(10);
    ASSERT_TRUE(meanwhile);
    EXPECT_TRUE(covers(first, *meanwhile));
    EXPECT_TRUE(covers(second, *meanwhile));
  }
  EXPECT_EQ(window_.allocate(10), std::nullopt);
  for (const Extent& extent : in_use) EXPECT_TRUE(covers(second, extent));
  window_.confirm();
  EXPECT_TRUE(window_.allocate(10));
}

TEST_F(WriteWindowTest, ARejectedProposalCostsNoRoom) {
  window_.propose(allocator_, {});
  window_.reject(allocator_);
  EXPECT_EQ(allocator_.free_units(), 1000u);
  EXPECT_EQ(window_.free_units(), 0u);
  EXPECT_EQ(window_.allocate(1), std::nullopt);
  EXPECT_TRUE(window_.named());  // it may have arrived
}

TEST_F(WriteWindowTest, GivesBackRunsThatAreTooShortForARecord) {
  window_.propose(allocator_, {});
  window_.confirm();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(window_.allocate(33));
  EXPECT_EQ(window_.free_units(), 1u);
  window_.propose(allocator_, {});
  window_.confirm();
  EXPECT_TRUE(window_.allocate(33));
  EXPECT_TRUE(window_.allocate(33));
  EXPECT_TRUE(window_.allocate(33));
  EXPECT_EQ(allocator_.used_units(), 99u + 100u);  // and not the one unit
}

TEST_F(WriteWindowTest, WithoutAWindowNothingIsNamedAndNothingIsGiven) {
  WriteWindow none(0);
  EXPECT_FALSE(none.wants_more(allocator_));
  EXPECT_FALSE(none.is_low(allocator_));
  EXPECT_FALSE(none.named());
}

TEST_F(WriteWindowTest, IsClosedWhenTheIndexNamesNone) {
  window_.propose(allocator_, {});
  window_.confirm();
  EXPECT_TRUE(window_.named());
  EXPECT_TRUE(window_.propose_none(allocator_).empty());
  EXPECT_TRUE(window_.named());
  window_.confirm();
  EXPECT_FALSE(window_.named());
  EXPECT_EQ(allocator_.free_units(), 1000u);
}

}  // namespace
}  // namespace terrace::storage
