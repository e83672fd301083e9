// The simulated store alone: what its crashes must not do to what a start found.
#include <gtest/gtest.h>

#include <algorithm>

#include "core/checksum.h"
#include "core/space.h"
#include "storage/disk/aligned_buffer.h"
#include "tests/sim/simulated_disk.h"
#include "tests/storage/support/manual_clock.h"

namespace terrace::sim {
namespace {

constexpr std::uint64_t disk_seeds = 200;
constexpr std::size_t block_bytes = 8192;

class StoredDisk : public testing::Test {
 protected:
  void make(std::uint64_t seed) {
    random_ = Random(seed);
    disk_ = make_stored_simulated_disk({4 << 20, 64 << 10, 1, Codec::raw}, clock_, seed,
                                       [](const std::string& what) { ADD_FAILURE() << what; });
    space_.numerics_id = space_.kv_dtype = space_.layout_id = "simulated";
    space_.block_tokens = 2;
    space_.block_bytes = block_bytes;
    payload_.ensure(block_bytes);
    std::ranges::fill(payload_.span(), std::byte{7});
    next_life();
  }

  void next_life() {
    tier_ = disk_->open();
    ASSERT_TRUE(tier_);
    found_ = tier_->take_recovered_blocks();
  }

  void crash(bool index_lost = false) {
    disk_->ending(true, random_);
    tier_.reset();
    disk_->ended(true, random_);
    if (index_lost) disk_->lose_index();
    next_life();
  }

  void write(Token token) {
    storage::DiskWrite request;
    request.ticket = static_cast<storage::Ticket>(token);
    request.space = request.parent = space_.digest();
    request.tokens = {token, token};
    request.key = derive_block_key(request.parent, request.tokens);
    request.payload = payload_.span().first(block_bytes);
    request.payload_checksum = payload_checksum(request.payload);
    request.recency = 1;
    tier_->write(std::move(request));
  }

  Status read(const storage::RecoveredBlock& block) {
    storage::AlignedBuffer into;
    into.ensure(block_bytes);
    tier_->read({1,
                 block.space,
                 block.key,
                 block.parent,
                 {block.tokens.begin(), block.tokens.end()},
                 into.span().first(block_bytes)});
    steps(SIZE_MAX);
    std::vector<storage::DiskCompletion> completed;
    tier_->take_completions(completed);
    return completed.empty() ? Status(StatusCode::internal, "no answer") : completed.back().status;
  }

  void steps(std::size_t most, const DiskTrouble& trouble = {}) {
    for (std::size_t i = 0; i < most && disk_->under_way(); ++i) disk_->step(random_, trouble);
  }

  Random random_{1};
  const std::shared_ptr<storage::ManualClock> clock_ = std::make_shared<storage::ManualClock>();
  SpaceDescriptor space_;
  storage::AlignedBuffer payload_;
  std::unique_ptr<SimulatedDisk> disk_;
  std::unique_ptr<storage::DiskTier> tier_;
  std::vector<storage::RecoveredBlock> found_;
};

// Whatever it hangs on need not have been durable when the process died: the names of files, the
// record itself.
TEST_F(StoredDisk, WhatAStartFoundOutlivesACrashRightAfterIt) {
  std::size_t found = 0;
  for (std::uint64_t seed = 1; seed <= disk_seeds; ++seed) {
    SCOPED_TRACE(seed);
    make(seed);
    tier_->add_space(space_);
    steps(3, {0.3, 0, 0});  // its file is there, but its directory could not be synced
    crash();
    tier_->add_space(space_);
    write(1);
    steps(SIZE_MAX);  // from now on records go to the write window
    for (Token token = 2; token <= 4; ++token) write(token);
    steps(random_.pick(20));
    crash();
    for (int again = 0; again < 2; ++again) {
      const auto before = found_;
      found += before.size();
      crash();
      for (const auto& block : before)
        EXPECT_TRUE(std::ranges::count(found_, block.key, &storage::RecoveredBlock::key))
            << "lost what the start before had found";
    }
    for (const auto& block : found_) EXPECT_EQ(read(block).to_string(), "ok");
    EXPECT_TRUE(std::ranges::count(found_, 1u, &storage::RecoveredBlock::recency))
        << "lost what was acknowledged";
    tier_.reset();
    disk_->ended(false, random_);
  }
  EXPECT_GT(found, 3 * disk_seeds) << "hardly ever more was found than what was acknowledged";
}

// Neither by a start that looks through the write window nor by a rebuild of the index.
TEST_F(StoredDisk, WhatWasErasedBeforeAFlushNeverComesBack) {
  for (std::uint64_t seed = 1; seed <= disk_seeds; ++seed) {
    SCOPED_TRACE(seed);
    make(seed);
    tier_->add_space(space_);
    for (Token token = 1; token <= 4; ++token) {
      write(token);
      steps(random_.pick(20));
    }
    steps(SIZE_MAX);
    std::vector<storage::DiskCompletion> written;
    tier_->take_completions(written);
    ASSERT_EQ(written.size(), 4u);
    const BlockKey erased = derive_block_key(space_.digest(), std::vector<Token>{3, 3});
    tier_->erase(erased);
    constexpr storage::Ticket flush = 1000;
    tier_->flush(flush);
    bool flushed = false;
    while (!flushed && disk_->under_way()) {
      steps(1);
      std::vector<storage::DiskCompletion> completed;
      tier_->take_completions(completed);
      flushed = std::ranges::count(completed, flush, &storage::DiskCompletion::ticket) > 0;
    }
    ASSERT_TRUE(flushed);
    for (const bool rebuild : {false, true}) {
      crash(rebuild);
      EXPECT_EQ(std::ranges::count(found_, erased, &storage::RecoveredBlock::key), 0);
      EXPECT_EQ(found_.size(), 3u);
    }
    tier_.reset();
    disk_->ended(false, random_);
  }
}

}  // namespace
}  // namespace terrace::sim
