#include "storage/policy/reuse_tracker.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "storage/catalog/catalog.h"
#include "storage/policy/reuse_policy.h"

namespace terrace::storage {
namespace {

class ReuseTrackerTest : public testing::Test {
 protected:
  ReuseTrackerTest() {
    SpaceDescriptor descriptor;
    descriptor.numerics_id = "test";
    descriptor.kv_dtype = "bf16";
    descriptor.layout_id = "test";
    descriptor.block_tokens = 1;
    descriptor.block_bytes = 64;
    space_ = *catalog_.open_space(descriptor);
    // As if a tier had been full: what goes is remembered.
    tracker_->set_capacity(Tier::disk, 1000, 1000);
  }
  // `number` is the block's token, and its name.
  BlockKey key(int number) const {
    BlockKey key;
    key.bytes[0] = static_cast<std::uint8_t>(number);
    return key;
  }
  Block& add(Block* parent, int number, RequestNumber request, bool last = false) {
    const Token token = number;
    Block* const block = catalog_.insert(*space_, parent, key(number), {&token, 1});
    block->disk = DiskCopy::present;
    tracker_->use(*block, request, last);
    return *block;
  }
  void remove(Block& block) {
    block.disk = DiskCopy::none;
    tracker_->remove(block);
    catalog_.remove(block);
  }

  Catalog catalog_;
  SpaceEntry* space_ = nullptr;
  std::unique_ptr<ReuseTracker> tracker_ = std::make_unique<ReuseTracker>();
};

TEST_F(ReuseTrackerTest, CountsUsesOncePerRequest) {
  const RequestNumber first = tracker_->begin_request();
  Block& block = add(nullptr, 1, first);
  tracker_->use(block, first, false);
  EXPECT_EQ(reuse_state(block).uses, 1);
  const RequestNumber second = tracker_->begin_request();
  tracker_->use(block, second, true);
  EXPECT_EQ(reuse_state(block).uses, 2);
  EXPECT_EQ(reuse_state(block).request, second);
  EXPECT_TRUE(tracker_->is_last(block, second));
  EXPECT_FALSE(tracker_->is_last(block, first));
  tracker_->set_not_last(block);
  EXPECT_FALSE(tracker_->is_last(block, second));
  for (int i = 0; i < 300; ++i) tracker_->use(block, tracker_->begin_request(), false);
  EXPECT_EQ(reuse_state(block).uses, max_uses);
}

TEST_F(ReuseTrackerTest, RemembersSomeOfWhatIsGone) {
  const RequestNumber first = tracker_->begin_request();
  std::vector<Block*> blocks;
  for (int i = 0; i < 8; ++i)
    blocks.push_back(&add(blocks.empty() ? nullptr : blocks.back(), i, first, i == 7));
  EXPECT_EQ(tracker_->model().size_of(first), 4u);  // 8 new ones
  for (int i = 7; i >= 0; --i) remove(*blocks[static_cast<std::size_t>(i)]);
  const RequestNumber second = tracker_->begin_request();
  std::vector<BlockKey> keys;
  for (int i = 0; i < 12; ++i) keys.push_back(key(i));
  tracker_->miss(keys, second);
  Block* parent = nullptr;
  for (int i = 0; i < 12; ++i) {
    parent = &add(parent, i, second);
    // Depths 0 and 4 and the last are remembered, so what lies above it was there as well.
    EXPECT_EQ(reuse_state(*parent).uses, i < 8 ? 2 : 1) << i;
  }
  EXPECT_EQ(tracker_->model().size_of(second), 3u);  // 4 new ones
}

TEST_F(ReuseTrackerTest, WhatWasKnownBeforeAStartGoesFirst) {
  const RequestNumber request = tracker_->begin_request();
  Block& used = add(nullptr, 1, request);
  const Token token = 2;
  Block& recovered = *catalog_.insert(*space_, nullptr, key(2), {&token, 1});
  tracker_->recover(recovered);
  recovered.recency = used.recency + 1;
  ReusePolicy policy(*tracker_, Tier::disk);
  policy.insert(used);
  policy.insert(recovered);
  EXPECT_EQ(policy.next(), &recovered);
  EXPECT_TRUE(policy.before(recovered, used));
  EXPECT_FALSE(policy.before(used, recovered));
  EXPECT_EQ(policy.size(), 2u);
  // Time passes, and the other is as unknown then.
  for (std::uint32_t i = 0; i < remembered_requests; ++i) tracker_->begin_request();
  EXPECT_EQ(policy.next(), &used);
  EXPECT_TRUE(policy.before(used, recovered));
  policy.erase(used);
  policy.erase(recovered);
  EXPECT_EQ(policy.next(), nullptr);
}

// What next() says and what before() says are the same order.
TEST_F(ReuseTrackerTest, PoliciesAgreeWithTheirComparison) {
  std::vector<Block*> blocks;
  ReusePolicy policy(*tracker_, Tier::disk);
  for (int i = 0; i < 200; ++i) {
    const RequestNumber request = tracker_->begin_request();
    if (i % 3 == 2) {
      Block& again = *blocks[static_cast<std::size_t>(i / 2)];
      policy.erase(again);
      tracker_->use(again, request, i % 2 == 0);
      policy.insert(again);
    }
    blocks.push_back(&add(nullptr, i, request, i % 5 == 0));
    policy.insert(*blocks.back());
  }
  for (Block* last = nullptr; Block* next = policy.next(); last = next) {
    EXPECT_TRUE(!last || policy.before(*last, *next));
    policy.erase(*next);
  }
}

}  // namespace
}  // namespace terrace::storage
