// Whatever happens to the bytes on the disk: the right bytes, or none.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/record.h"
#include "tests/storage/disk/store_harness.h"

namespace terrace::storage {
namespace {

class DiskCorruptionTest : public ::testing::TestWithParam<Codec> {
 protected:
  void SetUp() override { options_.codec = GetParam(); }

  std::unique_ptr<StoreHarness> open() {
    auto harness = open_harness(options_);
    if (harness) harness->store().add_space(space_);
    return harness;
  }
  // Writes `block` into a store, closes it and says where the record lies.
  RecordPlace write_and_close(const TestBlock& block) {
    const auto harness = open();
    EXPECT_TRUE(harness->write(block).status.ok());
    harness->close();
    return find_record(options_.directory, block.key);
  }
  // The record must be refused once, dropped, and not come back by a restart or a rebuild; the
  // block can be written again.
  void expect_quarantined(const TestBlock& block) {
    auto harness = open();
    ASSERT_EQ(harness->store().take_recovered_blocks().size(), 1u);
    EXPECT_EQ(harness->read(block).code(), StatusCode::corruption);
    EXPECT_EQ(harness->read(block).code(), StatusCode::not_found);
    EXPECT_EQ(harness->store().usage().quarantined_records, 1u);
    ASSERT_TRUE(harness->flush().status.ok());
    harness.reset();
    harness = open();
    EXPECT_EQ(harness->store().take_recovered_blocks().size(), 0u);
    harness.reset();
    std::filesystem::remove_all(options_.directory + "/index");
    harness = open();
    EXPECT_EQ(harness->store().take_recovered_blocks().size(), 0u);
    EXPECT_EQ(harness->store().usage().used_bytes, 0u);
    EXPECT_TRUE(harness->write(block).status.ok());
    EXPECT_TRUE(harness->read(block).ok());
  }

  TempDirectory directory_;
  DiskOptions options_ = small_options(directory_.path());
  SpaceDescriptor space_ = test_space();
  // Compresses to more than one page.
  TestBlock block_ = test_block(space_, 7, 2 * mib + 100, GetParam() == Codec::raw);
};

TEST_P(DiskCorruptionTest, AFlippedBitIsNeverServed) {
  const std::uint64_t stored = [&] {
    const RecordPlace place = write_and_close(block_);
    const auto page = read_range(place.path, place.offset, record_header_bytes);
    return decode_record_header(page)->stored_bytes;
  }();
  ASSERT_GT(stored, 300u);
  // Every part of the header, the start, the middle and the very end of the payload.
  const std::vector<std::uint64_t> places = {0,
                                             8,
                                             12,
                                             16,
                                             24,
                                             32,
                                             40,
                                             48,
                                             56,
                                             60,
                                             64,
                                             96,
                                             128,
                                             160,
                                             256,
                                             380,
                                             3000,
                                             4090,
                                             4096,
                                             4096 + stored / 2,
                                             4096 + stored - 1};
  for (const std::uint64_t at : places) {
    std::filesystem::remove_all(options_.directory);
    const RecordPlace place = write_and_close(block_);
    flip_byte(place.path, place.offset + at);
    SCOPED_TRACE(at);
    const auto harness = open();
    ASSERT_EQ(harness->store().take_recovered_blocks().size(), 1u);
    EXPECT_EQ(harness->read(block_).code(), StatusCode::corruption);
    EXPECT_EQ(harness->read(block_).code(), StatusCode::not_found);
  }
}

TEST_P(DiskCorruptionTest, ABrokenPayloadIsQuarantined) {
  const RecordPlace place = write_and_close(block_);
  flip_byte(place.path, place.offset + 4096 + 100);
  expect_quarantined(block_);
}

TEST_P(DiskCorruptionTest, ATornHeaderIsQuarantined) {
  const RecordPlace place = write_and_close(block_);
  overwrite(place.path, place.offset + 512, std::vector<std::byte>(4096 - 512, std::byte{0xa5}));
  expect_quarantined(block_);
}

TEST_P(DiskCorruptionTest, ARecordOfAnotherBlockIsNotServed) {
  const TestBlock other = test_block(space_, 8, block_.bytes, GetParam() == Codec::raw);
  {
    const auto harness = open();
    ASSERT_TRUE(harness->write(block_).status.ok());
    ASSERT_TRUE(harness->write(other).status.ok());
  }
  const RecordPlace first = find_record(options_.directory, block_.key);
  const RecordPlace second = find_record(options_.directory, other.key);
  const auto first_header = read_range(first.path, first.offset, record_header_bytes);
  const auto bytes = record_header_bytes +
                     round_up(decode_record_header(first_header)->stored_bytes, extent_unit_bytes);
  const auto first_record = read_range(first.path, first.offset, bytes);
  const auto second_record = read_range(second.path, second.offset, bytes);
  overwrite(first.path, first.offset, second_record);
  overwrite(second.path, second.offset, first_record);
  const auto harness = open();
  EXPECT_EQ(harness->read(block_).code(), StatusCode::corruption);
  EXPECT_EQ(harness->read(other).code(), StatusCode::corruption);
  EXPECT_EQ(harness->store().usage().quarantined_records, 2u);
}

TEST_P(DiskCorruptionTest, AFileCutBehindOurBackIsAMiss) {
  const auto harness = open();
  ASSERT_TRUE(harness->write(block_).status.ok());
  const RecordPlace place = find_record(options_.directory, block_.key);
  std::filesystem::resize_file(place.path, place.offset + 8192);
  EXPECT_EQ(harness->read(block_).code(), StatusCode::corruption);
  EXPECT_EQ(harness->read(block_).code(), StatusCode::not_found);
}

TEST_P(DiskCorruptionTest, AFileFoundTooShortLosesOnlyWhatWasInItsTail) {
  std::vector<TestBlock> blocks;
  {
    const auto harness = open();
    for (std::uint64_t i = 0; i < 4; ++i) {
      blocks.push_back(test_block(space_, 50 + i, 500'000));
      ASSERT_TRUE(harness->write(blocks.back()).status.ok());
    }
  }
  const RecordPlace third = find_record(options_.directory, blocks[2].key);
  std::filesystem::resize_file(third.path, third.offset + 4096 + 1000);
  const auto harness = open();
  EXPECT_EQ(harness->store().take_recovered_blocks().size(), 2u);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(harness->read(blocks[i]).code(), i < 2 ? StatusCode::ok : StatusCode::not_found);
  EXPECT_TRUE(harness->write(blocks[3]).status.ok());
  EXPECT_TRUE(harness->read(blocks[3]).ok());
}

INSTANTIATE_TEST_SUITE_P(Codecs, DiskCorruptionTest,
                         ::testing::Values(Codec::raw, Codec::zstd, Codec::planes),
                         [](const auto& variant) { return std::string(to_string(variant.param)); });

}  // namespace
}  // namespace terrace::storage
