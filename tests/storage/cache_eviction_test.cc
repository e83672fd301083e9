// Who leaves a full tier first.
#include "tests/storage/support/cache_fixture.h"

namespace terrace::storage {
namespace {

class CacheEviction : public CacheFixture {
 protected:
  // A prompt that comes back every eighth request, among others that never do and of which more
  // come meanwhile than there is room for. Returns how many of its blocks were there.
  std::size_t recurring_hits(int rounds) {
    const Prompt again = prompt(1, 4);
    std::size_t hits = 0;
    for (int round = 0; round < rounds; ++round) {
      const std::size_t had = get(again.keys);
      hits += had;
      put(again, had, 4 - had);
      for (int other = 0; other < 7; ++other) put(prompt(1000 + round * 7 + other, 2), 0, 2);
      finish_everything();
    }
    check();
    return hits;
  }
};

TEST_F(CacheEviction, TheReuseIndexKeepsWhatComesBack) {
  start({.device_blocks = 8, .disk_blocks = 0});
  // All but what it takes to learn.
  EXPECT_GT(recurring_hits(200), 4u * 150);
}

TEST_F(CacheEviction, LruKeepsWhatCameLast) {
  start({.device_blocks = 8, .disk_blocks = 0, .eviction = EvictionOrder::lru});
  EXPECT_EQ(recurring_hits(50), 0u);
}

TEST_F(CacheEviction, TheDiskKeepsWhatComesBackToo) {
  start({.device_blocks = 4, .disk_blocks = 8});
  EXPECT_GT(recurring_hits(200), 4u * 120);
}

TEST_F(CacheEviction, AMatchIsNoUse) {
  for (const EvictionOrder order : {EvictionOrder::lru, EvictionOrder::reuse_index}) {
    start({.device_blocks = 8, .disk_blocks = 0, .eviction = order});
    const Prompt a = prompt(1, 4), b = prompt(2, 4), c = prompt(3, 4);
    put(a, 0, 4);
    put(b, 0, 4);
    for (int i = 0; i < 100; ++i)
      EXPECT_EQ(cache_->match(space_, a.keys, a.tokens).matched_blocks, 4u);
    put(c, 0, 4);
    EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 0u);
    EXPECT_EQ(cache_->match(space_, b.keys, {}).matched_blocks, 4u);
    check();
  }
}

}  // namespace
}  // namespace terrace::storage
