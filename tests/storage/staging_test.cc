// Device memory that the CPU cannot access: what the cache does to it goes through the accelerator,
// and between it and the disk through buffers. Whatever touches it otherwise dies of it here.
#include "storage/device/staging.h"

#include <algorithm>

#include "core/checksum.h"
#include "tests/storage/support/cache_fixture.h"

namespace terrace::storage {
namespace {

class Staging : public CacheFixture {
 protected:
  void start_out_of_reach(Sizes sizes) {
    sizes.host_accessible = false;
    start(sizes);
  }
};

TEST_F(Staging, ABlockGoesToDiskAndComesBack) {
  start_out_of_reach({.device_blocks = 4});
  const Prompt a = prompt(1, 4);
  put(a, 0, 4);
  EXPECT_EQ(accelerator_.under_way(), 4u);  // fetched first
  EXPECT_TRUE(disk_->under_way().empty());
  finish_everything();
  EXPECT_EQ(stats(Tier::disk).blocks, 4u);
  for (const BlockKey& key : a.keys) EXPECT_EQ(on_disk_.records.at(key).payload, contents(key));
  put(prompt(2, 4), 0, 4);
  finish_everything();
  EXPECT_EQ(states(a), std::vector<BlockState>(4, BlockState::disk));
  EXPECT_EQ(get(a.keys), 4u);  // and their bytes are right
  EXPECT_EQ(stats(Tier::disk).promotions, 4u);
  check();
  stop();
  EXPECT_EQ(accelerator_.registered_bytes(), 0u);
}

TEST_F(Staging, ABlockGoesThroughTheHostTier) {
  start_out_of_reach({.device_blocks = 4, .host_blocks = 8, .clean_fraction = 1});
  EXPECT_EQ(accelerator_.registered_bytes(), cache_->host_arena_bytes());
  EXPECT_TRUE(cache_->host_registration().ok());
  const Prompt a = prompt(1, 4);
  put(a, 0, 4);
  finish_everything();
  tick();
  finish_everything();
  EXPECT_EQ(stats(Tier::host).blocks, 4u);
  put(prompt(2, 4), 0, 4);
  finish_everything();
  EXPECT_EQ(states(a), std::vector<BlockState>(4, BlockState::host));
  EXPECT_EQ(get(a.keys), 4u);
  EXPECT_EQ(stats(Tier::host).promotions, 4u);
  check();
  stop();
  EXPECT_EQ(accelerator_.registered_bytes(), 0u);
}

TEST_F(Staging, WhatAWorkerScribbledOnIsNotWrittenAndIsQuarantined) {
  start_out_of_reach({});
  const SessionId sealer = cache_->open_session();
  const Prompt a = prompt(1, 2);
  const auto slots = cache_->reserve(sealer, 1, space_, a.keys, 0);
  for (std::size_t i = 0; i < 2; ++i) {
    std::ranges::copy(contents(a.keys[i]), slot_bytes(slots[i]).begin());
    seal_one(sealer, 1, slots[i], a, i);
  }
  slot_bytes(slots[1])[7] ^= std::byte{1};
  finish_everything();
  EXPECT_EQ(on_disk_.records.size(), 1u);
  EXPECT_TRUE(on_disk_.records.contains(a.keys[0]));
  EXPECT_EQ(stats(Tier::device).corruptions, 1u);
  EXPECT_EQ(cache_->stats().quarantined_slots, 1u);
  EXPECT_EQ(cache_->match(space_, a.keys, {}).matched_blocks, 1u);
  check();
}

TEST_F(Staging, AFetchThatFailsIsTriedAgain) {
  start_out_of_reach({});
  const Prompt a = prompt(1, 1);
  put(a, 0, 1);
  finish_copy(0, ManualAccelerator::Fate::fails);
  EXPECT_EQ(stats(Tier::disk).failures, 1u);
  EXPECT_EQ(states(a)[0], BlockState::device);
  tick();
  finish_everything();
  EXPECT_EQ(stats(Tier::disk).blocks, 1u);
  check();
}

TEST_F(Staging, AFetchThatComesOutWrongNeverReachesTheDisk) {
  start_out_of_reach({});
  put(prompt(1, 1), 0, 1);
  finish_copy(0, ManualAccelerator::Fate::flips_a_bit);
  finish_everything();
  EXPECT_TRUE(on_disk_.records.empty());
  EXPECT_EQ(stats(Tier::device).corruptions, 1u);
  check();
}

TEST_F(Staging, ACopyToTheDeviceThatFailsOrComesOutWrongIsAMissAndKeepsTheDisksCopy) {
  for (const auto fate : {ManualAccelerator::Fate::fails, ManualAccelerator::Fate::flips_a_bit}) {
    on_disk_ = {};
    start_out_of_reach({.device_blocks = 1});
    const Prompt a = prompt(1, 1);
    put(a, 0, 1);
    finish_everything();
    put(prompt(2, 1), 0, 1);
    finish_everything();
    const SessionId session = cache_->open_session();
    std::size_t got = 9;
    cache_->acquire(session, 1, space_, a.keys, {}, [&](auto blocks) { got = blocks.size(); });
    finish_disk();
    finish_copy(0, fate);
    EXPECT_EQ(got, 0u);
    EXPECT_EQ(stats(Tier::disk).corruptions, 0u);
    check();
    cache_->release(session, 1);
    EXPECT_EQ(get(a.keys), 1u);
    check();
  }
}

TEST_F(Staging, ADrainWaitsForWhatIsInItsBuffers) {
  start_out_of_reach({});
  put(prompt(1, 4), 0, 4);
  bool drained = false;
  cache_->drain([&] { drained = true; });
  while (accelerator_.under_way() > 0) {
    finish_copy();
    EXPECT_FALSE(drained);
  }
  finish_everything();
  tick();
  finish_everything();
  EXPECT_TRUE(drained);
  EXPECT_EQ(on_disk_.records.size(), 4u);
}

TEST_F(Staging, DestroyingTheCacheWithEverythingUnderWayIsSafe) {
  start_out_of_reach({.device_blocks = 8, .host_blocks = 4, .clean_fraction = 1});
  const Prompt a = prompt(1, 8);
  put(a, 0, 8);
  finish_everything();
  put(prompt(2, 8), 0, 8);
  const SessionId session = cache_->open_session();
  cache_->acquire(session, 1, space_, a.keys, {}, [](auto) {});
  EXPECT_GT(accelerator_.under_way(), 0u);
  stop();
  EXPECT_EQ(accelerator_.registered_bytes(), 0u);
}

// The staged disk alone: a disk that completes nothing until it is told to.
class StagedDiskTest : public testing::Test {
 protected:
  static constexpr std::size_t bytes = 4096, max_buffers = 2;

  StagedDiskTest() {
    accelerator_.set_host_accessible(false);
    auto disk = std::make_unique<FakeDisk>(contents_);
    inner_ = disk.get();
    staged_ = std::make_unique<StagedDisk>(std::move(disk), staging_, max_buffers * bytes);
    memory_ = std::move(*accelerator_.allocate(16 * bytes));
    staged_->set_device_memory({memory_->data(), memory_->size()});
  }

  DiskWrite write(Ticket ticket, const BlockKey& key) {
    DiskWrite request;
    request.ticket = ticket;
    request.key = key;
    request.payload = {memory_->data(), bytes};
    request.payload_checksum = payload_checksum(std::vector<std::byte>(bytes));
    return request;
  }
  std::vector<DiskCompletion> take() {
    std::vector<DiskCompletion> out;
    staged_->take_completions(out);
    return out;
  }

  FakeDiskContents contents_;
  ManualAccelerator accelerator_;
  StagingAccelerator staging_{accelerator_};
  std::unique_ptr<DeviceMemory> memory_;
  FakeDisk* inner_ = nullptr;
  std::unique_ptr<StagedDisk> staged_;
};

TEST_F(StagedDiskTest, AnEraseComesAfterTheWriteThatItWasAskedForAfter) {
  BlockKey key;
  key.bytes[0] = 1;
  staged_->write(write(1, key));
  staged_->erase(key);
  EXPECT_EQ(inner_->erases(), 0u);
  accelerator_.complete(0);
  EXPECT_TRUE(take().empty());
  EXPECT_EQ(inner_->under_way().size(), 1u);
  EXPECT_EQ(inner_->erases(), 1u);
}

TEST_F(StagedDiskTest, AUseOfWhatIsStillBeingFetchedIsNotForgotten) {
  std::vector<BlockKey> keys(max_buffers + 1);  // one waits for a buffer
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i].bytes[0] = static_cast<std::uint8_t>(i + 1);
    staged_->write(write(i + 1, keys[i]));
  }
  staged_->touch(keys, 77);
  while (accelerator_.under_way() + inner_->under_way().size() > 0) {
    while (accelerator_.under_way() > 0) accelerator_.complete(0);
    take();
    while (!inner_->under_way().empty()) inner_->complete(0);
    take();
  }
  for (const BlockKey& key : keys) EXPECT_EQ(contents_.records.at(key).recency, 77u);
}

TEST_F(StagedDiskTest, AFlushComesAfterTheWritesThatItWasAskedForAfter) {
  BlockKey key;
  key.bytes[0] = 1;
  staged_->write(write(1, key));
  staged_->flush(2);
  EXPECT_TRUE(inner_->under_way().empty());
  accelerator_.complete(0);
  EXPECT_TRUE(take().empty());
  ASSERT_EQ(inner_->under_way().size(), 2u);
  EXPECT_EQ(inner_->under_way()[0].kind, FakeDisk::Kind::write);
  EXPECT_EQ(inner_->under_way()[1].kind, FakeDisk::Kind::flush);
  inner_->complete(0);
  inner_->complete(0);
  const auto done = take();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_TRUE(done[0].status.ok() && done[1].status.ok());
}

TEST_F(StagedDiskTest, BuffersAreBoundedAndRequestsWaitForThem) {
  for (Ticket ticket = 1; ticket <= 4; ++ticket) {
    BlockKey key;
    key.bytes[0] = static_cast<std::uint8_t>(ticket);
    staged_->write(write(ticket, key));
  }
  for (std::size_t done = 0; done < 4; ++done) {
    EXPECT_EQ(staged_->staging_bytes(), max_buffers * bytes);
    EXPECT_EQ(accelerator_.under_way(), std::min(max_buffers, 4 - done));
    accelerator_.complete(0);
    EXPECT_TRUE(take().empty());
    inner_->complete(0);
    ASSERT_EQ(take().size(), 1u);
  }
  // Those of another size take their place; a single larger one goes alone.
  DiskWrite large = write(5, BlockKey{});
  large.payload = {memory_->data(), 8 * bytes};
  staged_->write(std::move(large));
  EXPECT_EQ(staged_->staging_bytes(), 8 * bytes);
  EXPECT_EQ(accelerator_.registered_bytes(), 8 * bytes);
  staged_.reset();
  EXPECT_EQ(accelerator_.registered_bytes(), 0u);
}

TEST_F(StagedDiskTest, HostMemoryIsPassedOnAsItIs) {
  std::vector<std::byte> host(bytes);
  DiskWrite request = write(1, BlockKey{});
  request.payload = host;
  staged_->write(std::move(request));
  ASSERT_EQ(inner_->under_way().size(), 1u);
  EXPECT_EQ(inner_->under_way()[0].write.payload.data(), host.data());
  EXPECT_EQ(accelerator_.under_way(), 0u);
  EXPECT_EQ(staged_->staging_bytes(), 0u);
}

}  // namespace
}  // namespace terrace::storage
