// The tree of prefixes as people see it.
#include <algorithm>

#include "tests/storage/support/cache_fixture.h"

namespace terrace::storage {
namespace {

class CachePrefix : public CacheFixture {
 protected:
  std::vector<PrefixTail> tails(std::size_t looks, std::size_t limit) {
    std::vector<PrefixTail> latest;
    for (std::optional<BlockKey> from = BlockKey(); from; ++calls_)
      from = cache_->find_tails(*from, looks, limit, latest);
    return latest;
  }
  std::vector<PrefixRun> tree(std::size_t limit = 100, std::size_t max_blocks = 1000) {
    return cache_->prefix_runs(tails(1000, limit), max_blocks);
  }
  std::size_t calls_ = 0;
};

TEST_F(CachePrefix, IsRunsBetweenBranches) {
  start({});
  // Two that share their first 3 blocks, and one of its own that was used last.
  const Prompt a = prompt(1, 5, 1, 3), b = prompt(1, 4, 2, 3), c = prompt(2, 2);
  put(a, 0, 5);
  put(b, 3, 1);
  clock_.advance_ms(10);
  put(c, 0, 2);
  finish_everything();
  ASSERT_TRUE(cache_->pin(b.keys[3], {}).has_value());
  const auto runs = tree();
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_EQ(runs[0].first, c.keys[0]);
  EXPECT_EQ(runs[0].last, c.keys[1]);
  EXPECT_EQ(runs[0].parent, std::nullopt);
  EXPECT_EQ(runs[0].blocks, 2u);
  EXPECT_EQ(runs[0].bytes, 2 * test_block_bytes);
  EXPECT_EQ(runs[0].tokens, c.block(0));
  EXPECT_EQ(runs[0].blocks_in, (std::array<std::uint32_t, tier_count>{2, 0, 2, 0}));
  EXPECT_FALSE(runs[0].pinned);
  EXPECT_EQ(runs[1].first, a.keys[0]);
  EXPECT_EQ(runs[1].last, a.keys[2]);
  EXPECT_TRUE(runs[1].pinned);
  EXPECT_GT(runs[0].recency, runs[1].recency);
  const std::size_t of_a = runs[2].first == a.keys[3] ? 2 : 3, of_b = 5 - of_a;
  EXPECT_EQ(runs[of_a].last, a.keys[4]);
  EXPECT_EQ(runs[of_a].depth, 3u);
  EXPECT_EQ(runs[of_b].first, b.keys[3]);
  for (const std::size_t branch : {of_a, of_b}) EXPECT_EQ(runs[branch].parent, 1u);
}

TEST_F(CachePrefix, KeepsThoseThatWereUsedLastHoweverItIsPaged) {
  start({.device_blocks = 64});
  std::vector<Prompt> prompts;
  for (int i = 1; i <= 8; ++i) {
    clock_.advance_ms(10);
    prompts.push_back(prompt(i, 3));
    put(prompts.back(), 0, 3);
  }
  get(prompts[2].keys);  // used again
  for (const std::size_t looks : {1u, 2u, 5u, 100u}) {
    calls_ = 0;
    auto latest = tails(looks, 3);
    EXPECT_GE(calls_, 24 / looks) << "a call looks at no more than it may";
    std::ranges::sort(latest, {}, &PrefixTail::recency);
    ASSERT_EQ(latest.size(), 3u);
    EXPECT_EQ(latest[0].key, prompts[6].keys[2]);
    EXPECT_EQ(latest[1].key, prompts[7].keys[2]);
    EXPECT_EQ(latest[2].key, prompts[2].keys[2]);
  }
}

TEST_F(CachePrefix, IsBoundedAndSkipsWhatIsGone) {
  start({});
  put(prompt(1, 5), 0, 5);
  put(prompt(2, 3), 0, 3);
  const auto runs = tree(100, 4);
  ASSERT_EQ(runs.size(), 1u);  // whole or not at all
  EXPECT_EQ(runs[0].first, prompt(2, 3).keys[0]);
  EXPECT_TRUE(cache_->prefix_runs(std::vector<PrefixTail>{{prompt(7, 1).keys[0], 1}}, 10).empty());
}

}  // namespace
}  // namespace terrace::storage
