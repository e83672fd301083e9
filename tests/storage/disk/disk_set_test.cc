#include "storage/disk/disk_set.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <thread>

#include "tests/storage/disk/faulty_world.h"
#include "tests/storage/disk/store_harness.h"
#include "tests/storage/support/manual_clock.h"

namespace terrace::storage {
namespace {

namespace fs = std::filesystem;

class DiskSetTest : public ::testing::Test {
 protected:
  DiskSetTest() {
    for (const char* name : {"/a", "/b", "/c"}) {
      directories_.push_back(directory_.path() + name);
      plans_[directories_.back()] = std::make_shared<FaultPlan>();
    }
    options_.capacity_bytes = 24 * mib;
  }

  Result<std::unique_ptr<DiskSet>> try_open() {
    return DiskSet::open(options_, directories_, clock_, [this](const std::string& directory) {
      return faulty_world(plans_.at(directory), true, true);
    });
  }
  std::unique_ptr<TierHarness> open() {
    auto set = try_open();
    if (!set) {
      ADD_FAILURE() << set.error().to_string();
      return nullptr;
    }
    set_ = set->get();
    auto harness = std::make_unique<TierHarness>(std::move(*set));
    harness->tier().add_space(space_);
    return harness;
  }
  std::vector<TestBlock> write(TierHarness& harness, std::uint64_t first, std::uint64_t count) {
    std::vector<TestBlock> blocks;
    for (std::uint64_t i = first; i < first + count; ++i) {
      blocks.push_back(test_block(space_, i, 100'000));
      EXPECT_EQ(harness.write(blocks.back(), i + 1).status.to_string(), "ok");
    }
    return blocks;
  }
  void fail(std::size_t part, int error_number) {
    plans_.at(directories_[part])->fail(0, error_number, true);
  }
  // How many of the blocks lie in a directory.
  std::size_t blocks_on(std::size_t part) {
    return set_->store(part).usage().used_bytes / (4096 + round_up(100'000, 4096));
  }
  std::size_t readable(TierHarness& harness, const std::vector<TestBlock>& blocks) {
    return static_cast<std::size_t>(std::ranges::count_if(
        blocks, [&](const TestBlock& block) { return harness.read(block).ok(); }));
  }

  TempDirectory directory_;
  std::vector<std::string> directories_;
  std::map<std::string, std::shared_ptr<FaultPlan>> plans_;
  DiskOptions options_ = small_options(directory_.path());
  SpaceDescriptor space_ = test_space();
  std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  DiskSet* set_ = nullptr;
};

TEST_F(DiskSetTest, SpreadsBlocksByFreeRoomAndFindsThemAgain) {
  std::vector<TestBlock> blocks;
  {
    const auto harness = open();
    blocks = write(*harness, 0, 30);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(static_cast<double>(blocks_on(i)), 10, 2);
    harness->tier().erase(blocks.back().key);
    EXPECT_TRUE(harness->flush().status.ok());
    blocks.pop_back();
  }
  std::ranges::reverse(directories_);  // their order means nothing
  const auto harness = open();
  EXPECT_EQ(harness->tier().take_recovered_blocks().size(), blocks.size());
  EXPECT_EQ(harness->tier().take_recovered_spaces().size(), 1u);
  EXPECT_EQ(readable(*harness, blocks), blocks.size());
  EXPECT_EQ(harness->read(test_block(space_, 29, 100'000)).code(), StatusCode::not_found);
  // A block that is there is not written to another directory as well.
  const std::uint64_t used = set_->usage().used_bytes;
  EXPECT_TRUE(harness->write(blocks[0]).status.ok());
  EXPECT_EQ(set_->usage().used_bytes, used);
}

TEST_F(DiskSetTest, TheShareOfEachIsAHardCap) {
  const auto harness = open();
  StatusCode last = StatusCode::ok;
  for (std::uint64_t i = 0; last == StatusCode::ok; ++i)
    last = harness->write(test_block(space_, i, 100'000)).status.code();
  EXPECT_EQ(last, StatusCode::no_space);
  EXPECT_GT(set_->usage().used_bytes, options_.capacity_bytes * 8 / 10);
  for (const std::string& directory : directories_)
    EXPECT_LE(allocated_bytes(directory), options_.capacity_bytes / 3);
}

TEST_F(DiskSetTest, ADirectoryThatFailsLosesOnlyItsBlocksAndComesBack) {
  const auto harness = open();
  const auto blocks = write(*harness, 0, 30);
  ASSERT_TRUE(harness->flush().status.ok());
  const std::size_t others = 30 - blocks_on(1);
  ASSERT_LT(others, 30u);
  fail(1, EIO);
  EXPECT_EQ(readable(*harness, blocks), others);
  // Writes go elsewhere, none fails.
  const auto more = write(*harness, 100, 6);
  EXPECT_EQ(readable(*harness, more), 6u);
  // While it rests it is not even asked.
  plans_.at(directories_[1])->stop();
  EXPECT_EQ(readable(*harness, blocks), others);
  clock_->advance_ms(20'000);
  EXPECT_EQ(readable(*harness, blocks), 30u);
  EXPECT_TRUE(harness->flush().status.ok());
}

TEST_F(DiskSetTest, ItsRestGrowsWhileItFails) {
  const auto harness = open();
  const auto blocks = write(*harness, 0, 9);
  ASSERT_TRUE(harness->flush().status.ok());
  const std::size_t others = 9 - blocks_on(0);
  ASSERT_LT(others, 9u);
  fail(0, EIO);
  EXPECT_EQ(readable(*harness, blocks), others);
  clock_->advance_ms(101);
  EXPECT_EQ(readable(*harness, blocks), others);
  plans_.at(directories_[0])->stop();
  clock_->advance_ms(101);
  EXPECT_EQ(readable(*harness, blocks), others);
  clock_->advance_ms(100);
  EXPECT_EQ(readable(*harness, blocks), 9u);
}

TEST_F(DiskSetTest, OneThatIsFullIsNoProblemUntilAllAre) {
  const auto harness = open();
  write(*harness, 0, 3);
  fail(0, ENOSPC);
  fail(2, ENOSPC);
  const auto blocks = write(*harness, 10, 20);
  EXPECT_EQ(readable(*harness, blocks), 20u);
  fail(1, ENOSPC);
  EXPECT_EQ(harness->write(test_block(space_, 99, 100'000)).status.code(), StatusCode::no_space);
}

TEST_F(DiskSetTest, OneThatCannotBeOpenedIsLeftOut) {
  std::vector<TestBlock> blocks;
  std::size_t others = 0;
  {
    const auto harness = open();
    blocks = write(*harness, 0, 30);
    others = 30 - blocks_on(1);
  }
  fs::rename(directories_[1], directories_[1] + ".away");
  std::ofstream(directories_[1]) << "a file";
  {
    const auto harness = open();
    ASSERT_EQ(set_->directories(), 2u);
    EXPECT_EQ(harness->tier().take_recovered_blocks().size(), others);
    // Some that were lost are computed and written again.
    for (const TestBlock& block : blocks) EXPECT_TRUE(harness->write(block, 99).status.ok());
  }
  fs::remove(directories_[1]);
  fs::rename(directories_[1] + ".away", directories_[1]);
  open();
  // What was there twice takes room once.
  const auto harness = open();
  EXPECT_EQ(set_->usage().used_bytes, 30u * (4096 + round_up(100'000, 4096)));
  const auto recovered = harness->tier().take_recovered_blocks();
  EXPECT_EQ(recovered.size(), 30u);
  for (const RecoveredBlock& block : recovered) EXPECT_EQ(block.recency, 99u);
  EXPECT_EQ(readable(*harness, blocks), 30u);
}

TEST_F(DiskSetTest, OneThatCouldNotBeOpenedIsTriedAgainAndTakesBlocks) {
  std::vector<TestBlock> blocks;
  {
    const auto harness = open();
    blocks = write(*harness, 0, 12);
    harness->tier().set_note({"old", "1"});
    EXPECT_TRUE(harness->flush().status.ok());
  }
  const std::string away = directories_[0];
  fs::rename(away, away + ".away");
  std::ofstream(away) << "a file";
  std::vector<TestBlock> more;
  {
    const auto harness = open();
    ASSERT_EQ(set_->directories(), 2u);
    const std::uint64_t capacity = set_->usage().capacity_bytes;
    (void)harness->tier().take_recovered_notes();
    harness->tier().set_note({"old", ""});
    harness->tier().set_note({"new", "2"});
    std::vector<DiskCompletion> none;
    clock_->advance_ms(900);
    harness->tier().take_completions(none);  // too early
    fs::remove(away);
    fs::rename(away + ".away", away);
    clock_->advance_ms(200);
    while (set_->directories() < 3) {
      harness->tier().take_completions(none);
      std::this_thread::yield();
    }
    EXPECT_TRUE(none.empty());
    ASSERT_EQ(set_->directory(2), away);
    EXPECT_GT(set_->usage().capacity_bytes, capacity);
    const std::uint64_t used = set_->store(2).usage().used_bytes;
    EXPECT_GT(used, 0u) << "what is in it stays";
    more = write(*harness, 100, 12);
    EXPECT_GT(set_->store(2).usage().used_bytes, used);
    EXPECT_EQ(readable(*harness, more), 12u);
    EXPECT_TRUE(harness->flush().status.ok());
  }
  const auto harness = open();
  EXPECT_EQ(harness->tier().take_recovered_blocks().size(), 24u);
  EXPECT_EQ(readable(*harness, blocks) + readable(*harness, more), 24u);
  // The first directory's, which was away when they changed.
  const auto notes = harness->tier().take_recovered_notes();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(notes[0].name, "new");
}

TEST_F(DiskSetTest, RefusesWhatIsNotTheSystemsFault) {
  {
    const auto other = DiskStore::open([this] {
      DiskOptions options = options_;
      options.directory = directories_[2];
      return options;
    }());
    const auto set = try_open();
    ASSERT_FALSE(set);
    EXPECT_EQ(set.error().code(), StatusCode::already_exists);
    EXPECT_NE(set.error().message().find(directories_[2]), std::string::npos);
  }
  std::ofstream(directories_[0] + "/FORMAT", std::ios::trunc) << "terrace disk format 1\n";
  EXPECT_EQ(try_open().error().code(), StatusCode::failed_precondition);
  fs::remove(directories_[0] + "/FORMAT");
  directories_.push_back(directories_[0]);
  EXPECT_EQ(try_open().error().code(), StatusCode::invalid_argument);
}

TEST_F(DiskSetTest, RequestsForOneKeyTakeEffectInTheirOrder) {
  const auto harness = open();
  const TestBlock block = test_block(space_, 1, 100'000);
  fail(0, EIO);  // so that the first directory tried may be a wrong one
  const Ticket first = harness->next_ticket(), read = harness->next_ticket(),
               gone = harness->next_ticket(), again = harness->next_ticket();
  AlignedBuffer buffer;
  buffer.ensure(block.bytes);
  harness->tier().write(write_of(block, first));
  harness->tier().read(read_of(block, read, {buffer.data(), block.bytes}));
  harness->tier().erase(block.key);
  harness->tier().read(read_of(block, gone, {buffer.data(), block.bytes}));
  harness->tier().write(write_of(block, again));
  EXPECT_TRUE(harness->wait(first).status.ok());
  EXPECT_TRUE(harness->wait(read).status.ok());
  EXPECT_EQ(harness->wait(gone).status.code(), StatusCode::not_found);
  EXPECT_TRUE(harness->wait(again).status.ok());
  EXPECT_TRUE(harness->read(block).ok());
}

}  // namespace
}  // namespace terrace::storage
