// What a start finds after a crash, a lost index, or a directory that is not what it should be.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "storage/disk/index.h"
#include "tests/storage/disk/store_harness.h"

namespace terrace::storage {
namespace {

namespace fs = std::filesystem;

class DiskRecoveryTest : public ::testing::Test {
 protected:
  std::unique_ptr<StoreHarness> open() {
    auto harness = open_harness(options_);
    if (harness) harness->store().add_space(space_);
    return harness;
  }
  std::vector<TestBlock> write_blocks(std::uint64_t count) {
    std::vector<TestBlock> blocks;
    const auto harness = open();
    for (std::uint64_t i = 0; i < count; ++i) {
      // Sizes on both sides of where the scan of a rebuild jumps instead of reading on.
      blocks.push_back(test_block(space_, 500 + i, i % 3 == 2 ? 400'000 : 5000 + 1000 * i));
      EXPECT_TRUE(harness->write(blocks.back(), i + 1).status.ok());
    }
    return blocks;
  }
  void expect_all_there(const std::vector<TestBlock>& blocks) {
    const auto harness = open();
    ASSERT_NE(harness, nullptr);
    EXPECT_EQ(harness->store().take_recovered_blocks().size(), blocks.size());
    EXPECT_EQ(harness->store().take_recovered_spaces().size(), 1u);
    std::uint64_t used = 0;
    for (const TestBlock& block : blocks) {
      EXPECT_EQ(harness->read(block).to_string(), "ok");
      used += record_header_bytes + round_up(block.bytes, extent_unit_bytes);
    }
    EXPECT_EQ(harness->store().usage().used_bytes, used);
  }
  StatusCode open_code() {
    const auto store = DiskStore::open(options_);
    return store ? StatusCode::ok : store.error().code();
  }

  TempDirectory directory_;
  DiskOptions options_ = small_options(directory_.path());
  SpaceDescriptor space_ = test_space();
};

// The child writes and says after each acknowledgement which block is durable, until it is killed.
[[noreturn]] void write_until_killed(const DiskOptions& options, const SpaceDescriptor& space,
                                     int to_parent) {
  auto opened = DiskStore::open(options);
  if (!opened) ::_exit(1);
  StoreHarness harness(std::move(*opened));
  harness.store().add_space(space);
  std::vector<TestBlock> blocks;
  std::vector<Ticket> tickets;
  constexpr std::uint64_t depth = 8;
  for (std::uint64_t i = 0;; ++i) {
    blocks.push_back(test_block(space, i, 20'000));
    tickets.push_back(harness.next_ticket());
    harness.store().write(write_of(blocks.back(), tickets.back(), i + 1));
    if (i < depth) continue;
    const std::uint64_t done = i - depth;
    const Status status = harness.wait(tickets[done]).status;
    // A full store: make room at the old end, as a cache would.
    if (!status.ok() && status.code() != StatusCode::no_space) ::_exit(2);
    if (done % 5 == 4) harness.store().erase(blocks[done - 2].key);
    if (status.ok() && done % 5 != 2 &&
        ::write(to_parent, &done, sizeof done) != static_cast<ssize_t>(sizeof done))
      ::_exit(3);
  }
}

TEST_F(DiskRecoveryTest, AfterKillNineEverythingAcknowledgedIsThere) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer cannot follow a forked child that starts threads";
#endif
  for (const std::uint64_t enough : {1u, 40u, 150u}) {
    fs::remove_all(options_.directory);
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::close(ends[0]);
      write_until_killed(options_, space_, ends[1]);
    }
    ::close(ends[1]);
    std::vector<std::uint64_t> acknowledged;
    std::uint64_t seed = 0;
    while (acknowledged.size() < enough &&
           ::read(ends[0], &seed, sizeof seed) == static_cast<ssize_t>(sizeof seed))
      acknowledged.push_back(seed);
    ::kill(child, SIGKILL);
    while (::read(ends[0], &seed, sizeof seed) == static_cast<ssize_t>(sizeof seed))
      acknowledged.push_back(seed);
    ::close(ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself: " << status;
    ASSERT_GE(acknowledged.size(), enough);

    const auto harness = open();
    ASSERT_NE(harness, nullptr);
    for (const std::uint64_t one : acknowledged)
      EXPECT_EQ(harness->read(test_block(space_, one, 20'000)).to_string(), "ok") << one;
    // Whatever else was found verifies too, and takes new blocks beside it.
    EXPECT_TRUE(harness->write(test_block(space_, 1'000'000, 20'000)).status.ok());
    EXPECT_EQ(harness->store().usage().quarantined_records, 0u);
  }
}

TEST_F(DiskRecoveryTest, ALostIndexIsRebuilt) {
  const auto blocks = write_blocks(12);
  fs::remove_all(options_.directory + "/index");
  expect_all_there(blocks);
  expect_all_there(blocks);  // from the new index
}

TEST_F(DiskRecoveryTest, ARebuiltIndexKeepsTheOrderOfCreation) {
  const auto blocks = write_blocks(6);
  fs::remove_all(options_.directory + "/index");
  const auto harness = open();
  auto recovered = harness->store().take_recovered_blocks();
  std::sort(recovered.begin(), recovered.end(),
            [](const auto& left, const auto& right) { return left.recency < right.recency; });
  ASSERT_EQ(recovered.size(), blocks.size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(recovered[i].key, blocks[i].key);
    EXPECT_EQ(recovered[i].tokens, blocks[i].tokens);
    EXPECT_EQ(recovered[i].parent, blocks[i].parent);
  }
}

TEST_F(DiskRecoveryTest, ACorruptIndexIsRebuilt) {
  const auto blocks = write_blocks(9);
  const std::string index = options_.directory + "/index";
  for (const std::string kind : {"CURRENT", "MANIFEST", ".sst"}) {
    SCOPED_TRACE(kind);
    int damaged = 0;
    for (const auto& file : fs::directory_iterator(index)) {
      if (file.path().filename().string().find(kind) == std::string::npos) continue;
      std::ofstream(file.path(), std::ios::trunc) << "rubbish rubbish rubbish rubbish rubbish";
      ++damaged;
    }
    ASSERT_GT(damaged, 0);
    expect_all_there(blocks);
  }
  // A missing table, and an index cut short in the middle of being built.
  for (const auto& file : fs::directory_iterator(index))
    if (file.path().extension() == ".sst") fs::remove(file.path());
  expect_all_there(blocks);
  fs::remove_all(index);
  ASSERT_TRUE(Index::open(*make_system_files(), index, Index::Mode::create));
  expect_all_there(blocks);
}

TEST_F(DiskRecoveryTest, NotesAreKeptAcrossARestartAndLostWithTheIndex) {
  {
    const auto harness = open();
    EXPECT_TRUE(harness->store().take_recovered_notes().empty());
    harness->store().set_note({"b", "old"});
    harness->store().set_note({"a", std::string(70'000, 'x')});
    harness->store().set_note({"gone", "soon"});
    ASSERT_TRUE(harness->flush().status.ok());
    harness->store().set_note({"b", "new"});
    harness->store().set_note({"gone", ""});
  }
  {
    const auto harness = open();
    const auto notes = harness->store().take_recovered_notes();
    ASSERT_EQ(notes.size(), 2u);
    EXPECT_EQ(notes[0].name, "a");
    EXPECT_EQ(notes[0].value, std::string(70'000, 'x'));
    EXPECT_EQ(notes[1].name, "b");
    EXPECT_EQ(notes[1].value, "new");
    EXPECT_TRUE(harness->store().take_recovered_notes().empty());
  }
  fs::remove_all(options_.directory + "/index");
  EXPECT_TRUE(open()->store().take_recovered_notes().empty());
}

TEST_F(DiskRecoveryTest, ErasedBlocksDoNotComeBackByARebuild) {
  const auto blocks = write_blocks(6);
  {
    const auto harness = open();
    for (std::size_t i = 0; i < 3; ++i) harness->erase(blocks[i]);
  }
  fs::remove_all(options_.directory + "/index");
  const auto harness = open();
  EXPECT_EQ(harness->store().take_recovered_blocks().size(), 3u);
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_EQ(harness->read(blocks[i]).code(), i < 3 ? StatusCode::not_found : StatusCode::ok);
}

TEST_F(DiskRecoveryTest, APayloadThatLooksLikeARecordIsNotFoundByARebuild) {
  const TestBlock inner = test_block(space_, 1, 4096);
  RecordHeader header;
  header.space = inner.space;
  header.key = inner.key;
  header.parent = inner.parent;
  header.tokens = inner.tokens;
  header.payload_bytes = header.stored_bytes = 4096;
  header.payload_checksum = header.stored_checksum = payload_checksum(inner.payload());
  TestBlock outer = test_block(space_, 2, 5 * 4096);
  ASSERT_TRUE(encode_record_header(header, {outer.buffer.data() + 4096, 4096}).ok());
  std::copy(inner.payload().begin(), inner.payload().end(), outer.buffer.data() + 8192);
  ASSERT_TRUE(open()->write(outer).status.ok());
  fs::remove_all(options_.directory + "/index");
  const auto harness = open();
  EXPECT_EQ(harness->store().take_recovered_blocks().size(), 1u);
  EXPECT_TRUE(harness->read(outer).ok());
  EXPECT_EQ(harness->read(inner).code(), StatusCode::not_found);
}

TEST_F(DiskRecoveryTest, EntriesThatOverlapOrLieOutsideAreDropped) {
  const auto blocks = write_blocks(3);
  {
    const auto files = make_system_files();
    auto index = Index::open(*files, options_.directory + "/index", Index::Mode::open);
    ASSERT_TRUE(index);
    IndexEntry first;
    ASSERT_TRUE((*index)
                    ->scan(0, 1,
                           [&](const IndexEntry& entry, std::uint64_t) {
                             if (entry.key == blocks[0].key) first = entry;
                           })
                    .ok());
    // An older entry where the first block lies, one past the end, one in a file there is not.
    IndexBatch batch;
    for (std::uint64_t i = 0; i < 3; ++i) {
      const TestBlock other = test_block(space_, 900 + i, 4096);
      IndexEntry entry{other.key,    other.space,  other.parent,
                       other.tokens, first.extent, Codec::raw,
                       4096,         4096,         i};
      entry.extent.units = 2;
      if (i == 1) entry.extent.first = 1u << 30;
      if (i == 2) entry.extent.file = 77;
      batch.puts.push_back(entry);
    }
    ASSERT_TRUE((*index)->commit(batch, true).ok());
  }
  expect_all_there(blocks);
}

TEST_F(DiskRecoveryTest, BlocksOfAnUnknownSpaceAreDroppedAndTheirRoomIsFree) {
  write_blocks(4);
  fs::remove_all(options_.directory + "/spaces");
  const auto harness = open();
  EXPECT_TRUE(harness->store().take_recovered_blocks().empty());
  EXPECT_EQ(harness->store().usage().used_bytes, 0u);
}

TEST_F(DiskRecoveryTest, OtherFormatVersionsAreRefusedAndNothingIsDamaged) {
  const auto blocks = write_blocks(3);
  const std::string format = options_.directory + "/FORMAT";
  for (const char* text : {"terrace disk format 3\n", "something else\n", ""}) {
    std::ofstream(format, std::ios::trunc) << text;
    const auto store = DiskStore::open(options_);
    ASSERT_FALSE(store);
    EXPECT_EQ(store.error().code(), StatusCode::failed_precondition);
    EXPECT_NE(store.error().message().find(options_.directory), std::string::npos);
  }
  std::ofstream(format, std::ios::trunc) << "terrace disk format 2\n";
  expect_all_there(blocks);
}

TEST_F(DiskRecoveryTest, ARebuildRefusesRecordsOfAnotherVersion) {
  const auto blocks = write_blocks(3);
  const RecordPlace place = find_record(options_.directory, blocks[1].key);
  const auto original = read_range(place.path, place.offset, record_header_bytes);
  auto other = original;
  store_le<std::uint32_t>(&other[8], 1);
  store_le<std::uint64_t>(&other[4088], xxh3(std::span(other).first(4088)));
  overwrite(place.path, place.offset, other);
  fs::remove_all(options_.directory + "/index");
  EXPECT_EQ(open_code(), StatusCode::failed_precondition);
  overwrite(place.path, place.offset, original);
  expect_all_there(blocks);
}

TEST_F(DiskRecoveryTest, AFileInPlaceOfTheDirectoryIsAClearError) {
  std::ofstream(directory_.path() + "/file") << "x";
  options_.directory = directory_.path() + "/file";
  const auto store = DiskStore::open(options_);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code(), StatusCode::io_error);
  EXPECT_NE(store.error().message().find("/file"), std::string::npos);
}

}  // namespace
}  // namespace terrace::storage
