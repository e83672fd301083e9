#include "storage/redis/slot_hash.h"

#include <gtest/gtest.h>

namespace terrace::storage::redis {
namespace {

TEST(SlotHash, IsThatOfTheSpecification) {
  EXPECT_EQ(slot_of("123456789"), 0x31c3 % slot_count);
  EXPECT_EQ(slot_of("foo"), 12182);
  EXPECT_EQ(slot_of(""), 0);
}

TEST(SlotHash, OnlyWhatIsInTheFirstBracesCounts) {
  EXPECT_EQ(slot_of("{user1000}.following"), slot_of("user1000"));
  EXPECT_EQ(slot_of("foo{{bar}}zap"), slot_of("{bar"));
  EXPECT_EQ(slot_of("foo{bar}{zap}"), slot_of("bar"));
  EXPECT_NE(slot_of("foo{}{bar}"), slot_of("bar"));
}

}  // namespace
}  // namespace terrace::storage::redis
