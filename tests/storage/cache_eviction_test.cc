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

// It anchors a block in the host, which had no place for it when it was asked, and nobody uses it:
// its slot must not be lost to all others for ever.
TEST_F(CacheEviction, WhatTheHostHadNoPlaceForIsOfferedToItAgain) {
  start({.device_blocks = 2,
         .host_blocks = 1,
         .disk_blocks = 0,
         .clean_fraction = 0,
         .slab_blocks = 1});
  const Prompt a = prompt(1, 3);
  ASSERT_EQ(put(a, 0, 2), 2u);
  const SessionId session = cache_->open_session();
  ASSERT_EQ(put(session, 1, a, 2, 1), 0u);  // what is in its way goes to the host
  finish_everything();
  ASSERT_EQ(put(session, 1, a, 2, 1), 1u);
  ASSERT_EQ(put(session, 1, prompt(9, 1), 0, 1), 0u);  // and here there is no room for that
  finish_everything();
  ASSERT_EQ(states(a), (std::vector{BlockState::device, BlockState::host, BlockState::device}));
  cache_->end_session(session);
  // The other slot is in use for long: nothing that is copied down from there moves what is in the
  // host.
  const SessionId holder = cache_->open_session();
  std::size_t held = 0;
  for (int i = 0; i < 4 && held == 0; ++i) {
    held = cache_->reserve(holder, 1, space_, {}, 1).size();
    finish_everything();
    tick();
  }
  ASSERT_EQ(held, 1u);
  ASSERT_EQ(states(a)[0], BlockState::device);
  std::size_t had = 0;
  for (int i = 0; i < 4 && had == 0; ++i) {
    had = put(prompt(2, 1), 0, 1);
    finish_everything();
    tick();
  }
  EXPECT_EQ(had, 1u);
  check();
}

}  // namespace
}  // namespace terrace::storage
