#include "storage/redis/negative_cache.h"

#include <gtest/gtest.h>

namespace terrace::storage::redis {
namespace {

BlockKey key(unsigned number) {
  BlockKey made;
  std::memcpy(made.bytes.data(), &number, sizeof number);
  return made;
}

TEST(NegativeCache, ForgetsAfterItsTime) {
  NegativeCache cache(10, 100);
  cache.insert(key(1), 0);
  EXPECT_TRUE(cache.contains(key(1), 99));
  EXPECT_FALSE(cache.contains(key(1), 100));
  cache.insert(key(2), 200);
  EXPECT_EQ(cache.size(), 1u);
}

TEST(NegativeCache, AWriteEndsIt) {
  NegativeCache cache(10, 100);
  cache.insert(key(1), 0);
  cache.erase(key(1));
  EXPECT_FALSE(cache.contains(key(1), 1));
  // What is left of the first entry does not shorten a later one.
  cache.insert(key(1), 50);
  cache.insert(key(2), 120);
  EXPECT_TRUE(cache.contains(key(1), 120));
}

TEST(NegativeCache, IsBoundedAndTheOldestGoes) {
  NegativeCache cache(100, 1000);
  for (unsigned i = 0; i < 1000; ++i) cache.insert(key(i), i / 10);
  EXPECT_EQ(cache.size(), 100u);
  EXPECT_TRUE(cache.contains(key(999), 100));
  EXPECT_FALSE(cache.contains(key(899), 100));
}

TEST(NegativeCache, MayBeOff) {
  NegativeCache none(0, 1000), never(10, 0);
  none.insert(key(1), 0);
  never.insert(key(1), 0);
  EXPECT_FALSE(none.contains(key(1), 0));
  EXPECT_FALSE(never.contains(key(1), 0));
}

}  // namespace
}  // namespace terrace::storage::redis
