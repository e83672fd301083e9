// Stores that no daemon has open: looked at without a change, and repaired.
#include "storage/disk/store_check.h"

#include <filesystem>
#include <fstream>
#include <map>

#include "tests/storage/disk/store_harness.h"

namespace terrace::storage {
namespace {

class StoreCheckTest : public ::testing::Test {
 protected:
  StoreCheckTest() {
    const auto harness = open_harness(options_);
    harness->tier().add_space(space_);
    for (std::uint64_t i = 0; i < 5; ++i) {
      blocks_.push_back(test_block(space_, i, 50'000, i % 2 == 0));
      EXPECT_TRUE(harness->write(blocks_.back()).status.ok());
    }
    harness->tier().set_note({"pin", "kept"});
    EXPECT_TRUE(harness->flush().status.ok());
  }

  Result<StoreCheck> look() const {
    return check_store(options_.directory, *files_,
                       [](std::uint64_t, std::uint64_t) { return true; });
  }
  void rot(const TestBlock& block, std::uint64_t behind) const {
    const RecordPlace place = find_record(options_.directory, block.key);
    flip_byte(place.path, place.offset + behind);
  }
  // Every file but the lock, with its bytes.
  std::map<std::string, std::string> everything() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(options_.directory)) {
      if (!entry.is_regular_file() || entry.path().filename() == "LOCK") continue;
      std::ifstream file(entry.path(), std::ios::binary);
      files[entry.path()] = {std::istreambuf_iterator<char>(file), {}};
    }
    return files;
  }

  TempDirectory directory_;
  DiskOptions options_ = [this] {
    DiskOptions options = small_options(directory_.path());
    options.codec = Codec::planes;
    return options;
  }();
  SpaceDescriptor space_ = test_space();
  std::vector<TestBlock> blocks_;
  std::unique_ptr<Files> files_ = make_system_files();
};

TEST_F(StoreCheckTest, FindsWhatHasRottedAndChangesNothing) {
  EXPECT_TRUE(look()->sound());
  EXPECT_EQ(look()->records, 5u);
  EXPECT_EQ(look()->spaces, 1u);
  rot(blocks_[1], 4096 + 20);
  rot(blocks_[2], 4096 + 20);
  rot(blocks_[3], 140);
  const auto before = everything();
  const auto check = look();
  ASSERT_TRUE(check.has_value()) << check.error().message();
  ASSERT_EQ(check->bad.size(), 3u);
  for (const BadRecord& bad : check->bad) {
    EXPECT_TRUE(bad.key == blocks_[1].key || bad.key == blocks_[2].key ||
                bad.key == blocks_[3].key);
    EXPECT_NE(bad.place.find("/data-000000 at "), std::string::npos);
    EXPECT_FALSE(bad.reason.empty());
  }
  EXPECT_EQ(everything(), before);

  const auto gone = repair_store(options_, *check);
  ASSERT_TRUE(gone.has_value()) << gone.error().message();
  EXPECT_EQ(*gone, 3u);
  EXPECT_TRUE(look()->sound());
  EXPECT_EQ(look()->records, 2u);
  const auto harness = open_harness(options_);
  EXPECT_EQ(harness->tier().take_recovered_notes().size(), 1u);
  EXPECT_TRUE(harness->read(blocks_[0]).ok());
  EXPECT_TRUE(harness->read(blocks_[4]).ok());
  EXPECT_EQ(harness->read(blocks_[1]).code(), StatusCode::not_found);
}

TEST_F(StoreCheckTest, GoesByTheRecordsWhereTheIndexIsOfNoUse) {
  rot(blocks_[2], 4096 + 20);
  std::filesystem::remove_all(options_.directory + "/index");
  const auto check = look();
  ASSERT_TRUE(check.has_value());
  EXPECT_EQ(check->index_problem, "there is none");
  EXPECT_EQ(check->records, 5u);
  ASSERT_EQ(check->bad.size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(options_.directory + "/index"));
  EXPECT_EQ(repair_store(options_, *check).value_or(0), 1u);
  EXPECT_TRUE(look()->sound());
  EXPECT_EQ(look()->records, 4u);
}

TEST_F(StoreCheckTest, LeavesToItselfWhatIsInUseOrNoStore) {
  {
    const auto harness = open_harness(options_);
    EXPECT_EQ(look().error().code(), StatusCode::already_exists);
  }
  std::ofstream(options_.directory + "/FORMAT") << "terrace disk format 9\n";
  EXPECT_EQ(look().error().code(), StatusCode::failed_precondition);
  std::filesystem::remove(options_.directory + "/FORMAT");
  EXPECT_EQ(look().error().code(), StatusCode::not_found);
}

TEST_F(StoreCheckTest, ARecordThatIsLookedAtStaysAndSaysWhereItIs) {
  rot(blocks_[0], 4096 + 20);
  const auto harness = open_harness(options_);
  AlignedBuffer destination;
  destination.ensure(blocks_[0].bytes);
  const auto look_at = [&](bool leave) {
    DiskRead read =
        read_of(blocks_[0], harness->next_ticket(), destination.span().first(blocks_[0].bytes));
    read.leave_corrupt = leave;
    const Ticket ticket = read.ticket;
    harness->tier().read(std::move(read));
    return harness->wait(ticket);
  };
  for (const bool leave : {true, true, false}) {
    const DiskCompletion completion = look_at(leave);
    EXPECT_EQ(completion.status.code(), StatusCode::corruption);
    EXPECT_NE(completion.place.find("/data-000000 at "), std::string::npos);
  }
  EXPECT_EQ(look_at(true).status.code(), StatusCode::not_found);
}

}  // namespace
}  // namespace terrace::storage
