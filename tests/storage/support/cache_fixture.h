// A cache over fakes, and the words of a test: prompts, put, get.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/shared_memory.h"
#include "storage/tiered_cache.h"
#include "tests/storage/support/fake_disk.h"
#include "tests/storage/support/fake_remote.h"
#include "tests/storage/support/manual_accelerator.h"
#include "tests/storage/support/manual_clock.h"

namespace terrace::storage {

constexpr std::uint32_t test_block_tokens = 4;
constexpr std::uint64_t test_block_bytes = 4096;

// A prompt and the keys of its blocks.
struct Prompt {
  std::vector<Token> tokens;
  std::vector<BlockKey> keys;

  std::span<const BlockKey> first(std::size_t blocks) const {
    return std::span(keys).first(blocks);
  }
  // Of block `index`: of the block before it, or the space's digest.
  BlockKey parent(std::size_t index) const { return index ? keys[index - 1] : space; }
  std::vector<Token> block(std::size_t index) const {
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(index * test_block_tokens);
    return {begin, begin + test_block_tokens};
  }
  BlockKey space;
};

class CacheFixture : public testing::Test {
 protected:
  struct Sizes {
    std::size_t device_blocks = 16;
    std::size_t host_blocks = 0;
    std::size_t disk_blocks = 64;  // 0: no disk tier
    DeviceVerify verify = DeviceVerify::first_use;
    double clean_fraction = 0.25;
    std::size_t slab_blocks = 4;
    bool host_accessible = true;     // device memory
    double clean_low_fraction = -1;  // below 0: as clean_fraction
    WritePolicy host_write = WritePolicy::on_evict;
    WritePolicy disk_write = WritePolicy::behind;
    std::vector<TenantQuota> tenants = {};
    std::size_t pinned_blocks = 1000;             // the budget of pins
    std::size_t hour_writes = 0, day_writes = 0;  // the budget of write-behind, in blocks
    EvictionOrder eviction = EvictionOrder::reuse_index;
    bool remote = false;  // a tier that other hosts share
    WritePolicy redis_write = WritePolicy::on_second_use;
  };

  static SpaceDescriptor descriptor(const std::string& name = "model",
                                    std::uint64_t block_bytes = test_block_bytes);

  // Makes the cache (anew: what was durable stays) and opens the space "model".
  void start(const Sizes& sizes);
  void stop();

  // A prompt of `blocks` blocks; prompts share the first `shared` blocks if they have the same
  // `head` and none otherwise.
  Prompt prompt(int head, std::size_t blocks, int tail = 0, std::size_t shared = SIZE_MAX) const;

  // Completes everything, as it should, until nothing is under way.
  void finish_everything();
  // Completes one request of the engines or all that are there now, and lets the cache handle it.
  void finish_disk(std::size_t which = 0, const Status& failure = {});
  void finish_remote(std::size_t which = 0, const Status& failure = {});
  void finish_copy(std::size_t which = 0,
                   ManualAccelerator::Fate fate = ManualAccelerator::Fate::good);
  void tick(std::int64_t ms = 1000);

  // Reserves, fills and seals blocks [from, from + count) of a prompt. Returns how many were
  // sealed.
  std::size_t put(SessionId session, LeaseId lease, const Prompt& prompt, std::size_t from,
                  std::size_t count);
  // The same in a session and lease of its own that end at once.
  std::size_t put(const Prompt& prompt, std::size_t from, std::size_t count);
  std::vector<SealOutcome> seal_one(SessionId session, LeaseId lease, SlotOffset slot,
                                    const Prompt& prompt, std::size_t index);

  // Acquires and completes everything. Checks the bytes of what came.
  std::vector<AcquiredBlock> get(SessionId session, LeaseId lease, std::span<const BlockKey> keys,
                                 const AcquireOptions& options = {});
  // The same in a session of its own that ends at once: how many came.
  std::size_t get(std::span<const BlockKey> keys);

  std::vector<BlockState> states(const Prompt& prompt) const {
    return cache_->match(space_, prompt.keys, {}).blocks;
  }
  TierStats stats(Tier tier) const { return cache_->stats().tiers[static_cast<std::size_t>(tier)]; }

  // What the bytes of a block are in these tests: they tell its key.
  static std::vector<std::byte> contents(const BlockKey& key,
                                         std::uint64_t bytes = test_block_bytes);
  std::span<std::byte> slot_bytes(SlotOffset slot, std::uint64_t bytes = test_block_bytes) const {
    return {device_.data() + slot, bytes};
  }
  bool holds(SlotOffset slot, const BlockKey& key) const;

  void check() const {
    const Status status = cache_->check_invariants();
    ASSERT_TRUE(status.ok()) << status.to_string();
  }

  ManualClock clock_;
  ManualAccelerator accelerator_;
  FakeDiskContents on_disk_;
  std::unique_ptr<TieredCache> cache_;
  FakeDisk* disk_ = nullptr;  // the cache's
  FakeRemoteContents in_redis_;
  FakeRemote* remote_ = nullptr;  // the cache's
  SharedMapping device_;
  SpaceId space_ = 0;
  BlockKey digest_;
};

}  // namespace terrace::storage
