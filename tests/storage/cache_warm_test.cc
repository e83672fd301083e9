// Loading into the host tier, past the device: what an operator warms there.
#include "tests/storage/support/remote_fixture.h"

namespace terrace::storage {
namespace {

class CacheWarm : public RemoteFixture {
 protected:
  // Where each block was that is now in the host tier or above.
  std::vector<Tier> warm(std::span<const BlockKey> keys) {
    begin(keys);
    finish_everything();
    return end();
  }
  void begin(std::span<const BlockKey> keys) {
    session_ = cache_->open_session();
    answered_ = false;
    cache_->acquire(session_, 1, space_, keys, {.into = Tier::host},
                    [this](std::vector<AcquiredBlock> blocks) {
                      answered_ = true;
                      from_.clear();
                      for (const AcquiredBlock& block : blocks) from_.push_back(block.from);
                    });
  }
  std::vector<Tier> end() {
    EXPECT_TRUE(answered_);
    check();
    cache_->end_session(session_);
    check();
    return from_;
  }
  // A prompt that only the disk has.
  Prompt on_disk_only(const Sizes& sizes, std::size_t blocks) {
    start(sizes);
    const Prompt p = prompt(1, blocks);
    put(p, 0, blocks);
    finish_everything();
    start(sizes);
    return p;
  }

  SessionId session_ = 0;
  bool answered_ = false;
  std::vector<Tier> from_;
};

TEST_F(CacheWarm, WhatIsOnDiskComesToTheHostAndNoHigher) {
  for (const bool host_accessible : {true, false}) {
    on_disk_ = {};
    accelerator_.set_host_accessible(host_accessible);
    const Prompt p =
        on_disk_only({.device_blocks = 4, .host_blocks = 8, .host_accessible = host_accessible}, 3);
    EXPECT_EQ(warm(p.keys), std::vector<Tier>(3, Tier::disk));
    EXPECT_EQ(states(p), std::vector<BlockState>(3, BlockState::host));
    EXPECT_EQ(stats(Tier::host).blocks, 3u);
    EXPECT_EQ(stats(Tier::device).blocks, 0u);
    EXPECT_EQ(stats(Tier::device).misses, 0u) << "nobody wanted it there";
    EXPECT_EQ(stats(Tier::disk).promotions, 3u);
    // Again there is nothing to do, and what comes from there is right.
    const std::size_t reads = disk_->reads();
    EXPECT_EQ(warm(p.keys), std::vector<Tier>(3, Tier::host));
    EXPECT_EQ(disk_->reads(), reads);
    if (!host_accessible) continue;
    const SessionId session = cache_->open_session();
    const auto got = get(session, 1, p.keys);
    ASSERT_EQ(got.size(), 3u);
    EXPECT_EQ(got[2].from, Tier::host);
    check();
  }
}

TEST_F(CacheWarm, WhatTheDeviceHasStaysThereAlone) {
  const Prompt p = on_disk_only({.device_blocks = 8, .host_blocks = 8}, 3);
  EXPECT_EQ(get(p.first(2)), 2u);
  EXPECT_EQ(warm(p.keys), (std::vector<Tier>{Tier::device, Tier::device, Tier::disk}));
  EXPECT_EQ(stats(Tier::host).blocks, 1u);
  EXPECT_EQ(stats(Tier::device).blocks, 2u);
}

TEST_F(CacheWarm, ItTakesNoMoreThanTheHostHasRoomFor) {
  const Prompt p = on_disk_only({.device_blocks = 8, .host_blocks = 4}, 6);
  EXPECT_EQ(warm(p.keys).size(), 4u);
  EXPECT_EQ(stats(Tier::host).blocks, 4u);
  EXPECT_EQ(stats(Tier::host).evictions, 0u) << "its own head went for its tail";
}

TEST_F(CacheWarm, WithoutAHostTierNothingComes) {
  const Prompt p = on_disk_only({}, 2);
  EXPECT_EQ(warm(p.keys).size(), 0u);
  EXPECT_EQ(stats(Tier::device).blocks, 0u);
}

TEST_F(CacheWarm, WhatIsWrongOnDiskCutsTheRun) {
  const Prompt p = on_disk_only({.host_blocks = 8}, 3);
  begin(p.keys);
  finish_disk(1, Status(StatusCode::corruption, "told to"));
  finish_everything();
  EXPECT_EQ(end(), std::vector<Tier>(1, Tier::disk));
  // What was on its way behind it is there all the same, and nothing is held.
  EXPECT_EQ(stats(Tier::host).blocks, 2u);
  EXPECT_EQ(stats(Tier::host).used_bytes, 2 * test_block_bytes);
}

TEST_F(CacheWarm, WhatOthersHaveComesToTheHost) {
  start(with_remote({.host_blocks = 8}));
  const Prompt p = prompt(1, 2);
  write_elsewhere(p, 0, 2);
  ASSERT_EQ(matched(p), 2u);
  EXPECT_EQ(warm(p.keys), std::vector<Tier>(2, Tier::redis));
  EXPECT_EQ(states(p), std::vector<BlockState>(2, BlockState::host));
  EXPECT_EQ(stats(Tier::device).blocks, 0u);
}

TEST_F(CacheWarm, AWorkerMaySealWhatIsOnItsWayToTheHost) {
  start(with_remote({.host_blocks = 8, .disk_blocks = 0}));
  const Prompt p = prompt(1, 1);
  write_elsewhere(p, 0, 1);
  ASSERT_EQ(matched(p), 1u);
  begin(p.keys);
  EXPECT_EQ(put(p, 0, 1), 1u);
  finish_everything();
  EXPECT_EQ(end().size(), 1u);
  EXPECT_EQ(states(p)[0], BlockState::device);
}

TEST_F(CacheWarm, ACopyOnItsWayDownIsWaitedFor) {
  for (const bool good : {true, false}) {
    start({.device_blocks = 4, .host_blocks = 8, .disk_blocks = 0, .clean_fraction = 1});
    const Prompt p = prompt(1, 1);
    const SessionId worker = cache_->open_session();
    ASSERT_EQ(put(worker, 1, p, 0, 1), 1u);
    cache_->release(worker, 1);
    cache_->tick();
    ASSERT_EQ(accelerator_.under_way(), 1u);  // to the host
    begin(p.keys);
    finish_copy(0, good ? ManualAccelerator::Fate::good : ManualAccelerator::Fate::fails);
    EXPECT_EQ(end(), std::vector<Tier>(1, Tier::device));
    finish_everything();
  }
}

}  // namespace
}  // namespace terrace::storage
