#include "storage/disk/disk_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "core/shared_memory.h"
#include "tests/storage/disk/store_harness.h"

namespace terrace::storage {
namespace {

struct Variant {
  RingKind ring;
  Codec codec;
};

std::string variant_name(const ::testing::TestParamInfo<Variant>& info) {
  return std::string(info.param.ring == RingKind::threads ? "threads" : "io_uring") + "_" +
         to_string(info.param.codec);
}

class DiskStoreTest : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    if (GetParam().ring == RingKind::io_uring && !make_ring(RingKind::io_uring, 8))
      GTEST_SKIP() << "io_uring is not available here";
    options_ = small_options(directory_.path());
    options_.ring = GetParam().ring;
    options_.codec = GetParam().codec;
  }

  std::unique_ptr<StoreHarness> open() {
    auto harness = open_harness(options_);
    if (harness) harness->store().add_space(space_);
    return harness;
  }

  TempDirectory directory_;
  DiskOptions options_;
  SpaceDescriptor space_ = test_space();
};

TEST_P(DiskStoreTest, GivesBackWhatWasWritten) {
  const auto harness = open();
  for (const bool noisy : {true, false}) {
    // Odd sizes: below a page, one byte around pages, not a multiple of 512.
    for (const std::size_t bytes :
         {1u, 64u, 4095u, 4096u, 4097u, 8192u, 65536u, 70'000u, 737'280u, 1'048'576u}) {
      const TestBlock block = test_block(space_, bytes * 2 + noisy, bytes, noisy);
      EXPECT_EQ(harness->read(block).code(), StatusCode::not_found);
      const DiskCompletion written = harness->write(block);
      ASSERT_TRUE(written.status.ok()) << written.status.to_string();
      EXPECT_GE(written.disk_bytes, record_header_bytes + 1);
      EXPECT_EQ(written.disk_bytes % extent_unit_bytes, 0u);
      if (noisy || GetParam().codec == Codec::raw) {
        EXPECT_EQ(written.disk_bytes, record_header_bytes + round_up(bytes, extent_unit_bytes));
      } else if (bytes > 65536) {
        EXPECT_LT(written.disk_bytes, bytes / 2);
      }
      EXPECT_EQ(harness->read(block).to_string(), "ok") << bytes;
    }
  }
}

TEST_P(DiskStoreTest, TakesSourcesAndDestinationsThatAreNotPageAligned) {
  const auto harness = open();
  const TestBlock block = test_block(space_, 1, 20'000);
  AlignedBuffer shifted;
  shifted.ensure(block.bytes + 64);
  std::copy(block.payload().begin(), block.payload().end(), shifted.data() + 64);
  DiskWrite write = write_of(block, harness->next_ticket());
  write.payload = {shifted.data() + 64, block.bytes};
  const Ticket written = write.ticket;
  harness->store().write(std::move(write));
  ASSERT_TRUE(harness->wait(written).status.ok());
  EXPECT_TRUE(harness->read(block).ok());

  AlignedBuffer destination;
  destination.ensure(block.bytes + 8);
  const std::span<std::byte> unaligned(destination.data() + 8, block.bytes);
  const Ticket read = harness->next_ticket();
  harness->store().read(read_of(block, read, unaligned));
  ASSERT_TRUE(harness->wait(read).status.ok());
  EXPECT_TRUE(std::equal(unaligned.begin(), unaligned.end(), block.payload().begin()));
}

TEST_P(DiskStoreTest, ReadsIntoSharedMemory) {
  const auto harness = open();
  const TestBlock block = test_block(space_, 1, 100'000);
  ASSERT_TRUE(harness->write(block).status.ok());
  const auto file = create_memory_file("disk-test", mib);
  ASSERT_TRUE(file);
  const auto arena = SharedMapping::map(file->get(), mib, SharedMapping::Access::read_write);
  ASSERT_TRUE(arena);
  const std::span<std::byte> slot(arena->data() + 64 * kib, block.bytes);
  const Ticket ticket = harness->next_ticket();
  harness->store().read(read_of(block, ticket, slot));
  ASSERT_TRUE(harness->wait(ticket).status.ok());
  EXPECT_TRUE(std::equal(slot.begin(), slot.end(), block.payload().begin()));
}

TEST_P(DiskStoreTest, FindsEverythingAgainAfterARestartInItsOrderOfUse) {
  std::vector<TestBlock> blocks;
  {
    const auto harness = open();
    for (std::uint64_t i = 0; i < 10; ++i) {
      blocks.push_back(i == 0 ? test_block(space_, 100, 40'000)
                              : test_child(blocks.back(), 100 + i, 40'000));
      ASSERT_TRUE(harness->write(blocks[i], 10 + i).status.ok());
    }
    const std::vector<BlockKey> used = {blocks[3].key, blocks[5].key};
    harness->store().touch(used, 1000);
    ASSERT_TRUE(harness->flush().status.ok());
  }
  const auto harness = open();
  const auto recovered = harness->store().take_recovered_blocks();
  ASSERT_EQ(recovered.size(), blocks.size());
  EXPECT_TRUE(harness->store().take_recovered_blocks().empty());
  for (const RecoveredBlock& one : recovered) {
    const auto same = std::find_if(blocks.begin(), blocks.end(),
                                   [&](const TestBlock& block) { return block.key == one.key; });
    ASSERT_NE(same, blocks.end());
    const auto i = static_cast<std::uint64_t>(same - blocks.begin());
    EXPECT_EQ(one.space, same->space);
    EXPECT_EQ(one.parent, same->parent);
    EXPECT_EQ(one.tokens, same->tokens);
    EXPECT_EQ(one.disk_bytes, record_header_bytes + round_up(40'000, extent_unit_bytes));
    EXPECT_EQ(one.recency, i == 3 || i == 5 ? 1000 : 10 + i);
  }
  const auto spaces = harness->store().take_recovered_spaces();
  ASSERT_EQ(spaces.size(), 1u);
  EXPECT_EQ(spaces[0], space_);
  for (const TestBlock& block : blocks) EXPECT_TRUE(harness->read(block).ok());
  EXPECT_EQ(harness->store().usage().used_bytes, 10 * recovered[0].disk_bytes);
}

TEST_P(DiskStoreTest, ManyRequestsAtOnceAreAllServed) {
  options_.capacity_bytes = 64 * mib;
  const auto harness = open();
  std::vector<TestBlock> blocks;
  std::vector<AlignedBuffer> destinations(300);
  std::vector<Ticket> tickets;
  for (std::uint64_t i = 0; i < 300; ++i) {
    blocks.push_back(test_block(space_, i, 30'000 + i, i % 2 == 0));
    tickets.push_back(harness->next_ticket());
    harness->store().write(write_of(blocks.back(), tickets.back(), i));
    // The read is asked for while the write is under way: it must wait for it.
    destinations[i].ensure(blocks.back().bytes);
    tickets.push_back(harness->next_ticket());
    harness->store().read(
        read_of(blocks.back(), tickets.back(), {destinations[i].data(), blocks.back().bytes}));
  }
  for (const Ticket ticket : tickets) EXPECT_EQ(harness->wait(ticket).status.to_string(), "ok");
  for (std::size_t i = 0; i < blocks.size(); ++i)
    EXPECT_TRUE(
        std::equal(blocks[i].payload().begin(), blocks[i].payload().end(), destinations[i].data()));
}

TEST_P(DiskStoreTest, RequestsForOneKeyTakeEffectInTheirOrder) {
  const auto harness = open();
  const TestBlock block = test_block(space_, 1, 50'000);
  AlignedBuffer one, two, three;
  for (AlignedBuffer* buffer : {&one, &two, &three}) buffer->ensure(block.bytes);
  DiskStore& store = harness->store();
  store.read(read_of(block, 101, {one.data(), block.bytes}));
  store.write(write_of(block, 102));
  store.read(read_of(block, 103, {two.data(), block.bytes}));
  store.erase(block.key);
  store.read(read_of(block, 104, {three.data(), block.bytes}));
  store.write(write_of(block, 105));
  store.erase(block.key);
  store.write(write_of(block, 106));
  EXPECT_EQ(harness->wait(101).status.code(), StatusCode::not_found);
  EXPECT_TRUE(harness->wait(102).status.ok());
  EXPECT_TRUE(harness->wait(103).status.ok());
  EXPECT_EQ(harness->wait(104).status.code(), StatusCode::not_found);
  EXPECT_TRUE(harness->wait(105).status.ok());
  EXPECT_TRUE(harness->wait(106).status.ok());
  EXPECT_TRUE(harness->read(block).ok());
}

TEST_P(DiskStoreTest, AStopDropsWhatWaitsAndItsRecency) {
  auto harness = open();
  std::vector<TestBlock> blocks;
  for (std::uint64_t i = 0; i < 4 * max_writes_in_flight; ++i)
    blocks.push_back(test_block(space_, i, 16'000));
  for (const TestBlock& block : blocks)
    harness->store().write(write_of(block, harness->next_ticket()));
  std::vector<BlockKey> keys;
  for (const TestBlock& block : blocks) keys.push_back(block.key);
  harness->store().touch(keys, 9);
  harness->close();  // returns
}

INSTANTIATE_TEST_SUITE_P(Variants, DiskStoreTest,
                         ::testing::Values(Variant{RingKind::io_uring, Codec::raw},
                                           Variant{RingKind::io_uring, Codec::zstd},
                                           Variant{RingKind::io_uring, Codec::planes},
                                           Variant{RingKind::threads, Codec::raw},
                                           Variant{RingKind::threads, Codec::zstd},
                                           Variant{RingKind::threads, Codec::planes}),
                         variant_name);

class DiskStoreBasics : public ::testing::Test {
 protected:
  std::unique_ptr<StoreHarness> open() {
    auto harness = open_harness(options_);
    if (harness) harness->store().add_space(space_);
    return harness;
  }

  TempDirectory directory_;
  DiskOptions options_ = small_options(directory_.path());
  SpaceDescriptor space_ = test_space();
};

TEST_F(DiskStoreBasics, MakesItsDirectoryForItsOwnerAlone) {
  options_.directory = directory_.path() + "/a/b/disk";
  open();
  for (const char* part : {"/a", "/a/b", "/a/b/disk"}) {
    struct stat status;
    ASSERT_EQ(::stat((directory_.path() + part).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700u) << part;
  }
}

TEST_F(DiskStoreBasics, RefusesASecondOpenerAndNamesTheFirst) {
  auto harness = open();
  const auto second = DiskStore::open(options_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), StatusCode::already_exists);
  EXPECT_NE(second.error().message().find(options_.directory), std::string::npos);
  EXPECT_NE(second.error().message().find(std::to_string(::getpid())), std::string::npos);
  const TestBlock block = test_block(space_, 1, 4096);
  EXPECT_TRUE(harness->write(block).status.ok());
  harness.reset();
  EXPECT_TRUE(open()->read(block).ok());
}

TEST_F(DiskStoreBasics, StoresNothingIfTheBytesAreNotWhatTheirChecksumSays) {
  for (const Codec codec : {Codec::raw, Codec::zstd, Codec::planes}) {
    options_.codec = codec;
    const auto harness = open();
    const TestBlock block = test_block(space_, 1, 50'000);
    DiskWrite write = write_of(block, 1);
    write.payload_checksum ^= 1;
    harness->store().write(std::move(write));
    EXPECT_EQ(harness->wait(1).status.code(), StatusCode::corruption);
    EXPECT_EQ(harness->read(block).code(), StatusCode::not_found);
    EXPECT_EQ(harness->store().usage().used_bytes, 0u);
  }
}

TEST_F(DiskStoreBasics, RefusesWhatIsNoBlock) {
  const auto harness = open();
  const TestBlock block = test_block(space_, 1, 4096);
  DiskWrite other_tokens = write_of(block, 1);
  other_tokens.tokens[0] ^= 1;
  harness->store().write(std::move(other_tokens));
  EXPECT_EQ(harness->wait(1).status.code(), StatusCode::invalid_argument);
  DiskWrite empty = write_of(block, 2);
  empty.payload = {};
  harness->store().write(std::move(empty));
  EXPECT_EQ(harness->wait(2).status.code(), StatusCode::invalid_argument);
  DiskWrite no_space = write_of(test_block(test_space(4096, "unknown"), 1, 4096), 3);
  harness->store().write(std::move(no_space));
  EXPECT_EQ(harness->wait(3).status.code(), StatusCode::failed_precondition);
  EXPECT_TRUE(harness->write(block).status.ok());
}

TEST_F(DiskStoreBasics, ReadsOnlyWhatWasAskedFor) {
  const auto harness = open();
  const TestBlock block = test_block(space_, 1, 8192);
  ASSERT_TRUE(harness->write(block).status.ok());
  AlignedBuffer destination;
  destination.ensure(16384);
  harness->store().read(read_of(block, 50, {destination.data(), 4096}));
  EXPECT_EQ(harness->wait(50).status.code(), StatusCode::invalid_argument);
  EXPECT_TRUE(harness->read(block).ok());
  // The same key, said to be of another space: the record does not verify against that.
  DiskRead other_space = read_of(block, 51, {destination.data(), 8192});
  other_space.space = test_space(4096, "other").digest();
  harness->store().read(std::move(other_space));
  EXPECT_EQ(harness->wait(51).status.code(), StatusCode::corruption);
}

TEST_F(DiskStoreBasics, WritingABlockAgainKeepsOneRecord) {
  const auto harness = open();
  const TestBlock block = test_block(space_, 1, 8192);
  const DiskCompletion first = harness->write(block, 1);
  const DiskCompletion second = harness->write(block, 9);
  EXPECT_TRUE(second.status.ok());
  EXPECT_EQ(second.disk_bytes, first.disk_bytes);
  EXPECT_EQ(harness->store().usage().used_bytes, first.disk_bytes);
  ASSERT_TRUE(harness->flush().status.ok());
  harness->close();
  EXPECT_EQ(open()->store().take_recovered_blocks().at(0).recency, 9u);
}

TEST_F(DiskStoreBasics, HoldsItsCapacityAlsoAfterARestart) {
  options_.capacity_bytes = 4 * mib + 12'345;  // no multiple of anything
  options_.file_bytes = mib;
  std::vector<TestBlock> blocks;
  std::uint64_t stored = 0, seed = 0;
  for (int start = 0; start < 3; ++start) {
    const auto harness = open();
    for (;;) {
      blocks.push_back(test_block(space_, ++seed, 100'000));
      const DiskCompletion written = harness->write(blocks.back());
      if (!written.status.ok()) {
        EXPECT_EQ(written.status.code(), StatusCode::no_space);
        blocks.pop_back();
        break;
      }
      stored += written.disk_bytes;
      ASSERT_LE(harness->store().usage().used_bytes, options_.capacity_bytes);
    }
    EXPECT_EQ(harness->store().usage().used_bytes, stored);
    EXPECT_LT(harness->store().usage().capacity_bytes, options_.capacity_bytes);
    EXPECT_LE(allocated_bytes(options_.directory), options_.capacity_bytes);
    // What the index takes of so little depends on how its commits fall together.
    EXPECT_GT(stored, options_.capacity_bytes * 7 / 10);
    // Room for the next round.
    ASSERT_TRUE(harness->read(blocks.front()).ok());
    for (int i = 0; i < 5; ++i) {
      harness->erase(blocks[static_cast<std::size_t>(i)]);
      stored -= record_header_bytes + round_up(100'000, extent_unit_bytes);
    }
    blocks.erase(blocks.begin(), blocks.begin() + 5);
  }
}

// Small blocks, of which the index takes much: what it takes is taken from the data.
TEST_F(DiskStoreBasics, TheIndexCountsAgainstTheCapacity) {
  options_.capacity_bytes = 8 * mib;
  options_.file_bytes = mib;
  const auto harness = open();
  std::vector<TestBlock> blocks;
  std::uint64_t written = 0;
  for (std::uint64_t seed = 0; written < 3 * options_.capacity_bytes; ++seed) {
    blocks.push_back(test_block(space_, seed, 1000));
    const DiskCompletion completion = harness->write(blocks.back());
    written += completion.disk_bytes;
    if (completion.status.ok() && seed % 64 != 63) continue;
    ASSERT_LE(allocated_bytes(options_.directory), options_.capacity_bytes) << seed;
    if (completion.status.ok()) continue;
    ASSERT_EQ(completion.status.code(), StatusCode::no_space);
    for (std::size_t i = 0; i + 1 < blocks.size() && i < 100; ++i)
      harness->store().erase(blocks[i].key);
    ASSERT_TRUE(harness->flush().status.ok());
    blocks.erase(blocks.begin(), blocks.begin() + 100);
  }
  EXPECT_LT(harness->store().usage().capacity_bytes, options_.capacity_bytes);
}

TEST_F(DiskStoreBasics, ASmallerCapacityHoldsOnceTheCacheHasErased) {
  options_.capacity_bytes = 8 * mib;
  options_.file_bytes = 2 * mib;
  std::vector<TestBlock> blocks;
  {
    const auto harness = open();
    for (std::uint64_t i = 0; i < 60; ++i) {
      blocks.push_back(test_block(space_, i, 100'000));
      ASSERT_TRUE(harness->write(blocks.back(), i).status.ok());
    }
  }
  options_.capacity_bytes = 3 * mib;
  const auto harness = open();
  ASSERT_EQ(harness->store().take_recovered_blocks().size(), 60u);
  EXPECT_GT(harness->store().usage().used_bytes, options_.capacity_bytes);
  const TestBlock more = test_block(space_, 1000, 100'000);
  EXPECT_EQ(harness->write(more).status.code(), StatusCode::no_space);
  // Every second one: what is left is spread over all files.
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (i % 2 == 0 || i > 50) harness->erase(blocks[i]);
  ASSERT_LE(harness->store().usage().used_bytes, options_.capacity_bytes);
  EXPECT_LE(allocated_bytes(options_.directory), options_.capacity_bytes);
  while (harness->write(test_block(space_, 2000 + harness->next_ticket(), 100'000)).status.ok()) {
  }
  EXPECT_LE(harness->store().usage().used_bytes, options_.capacity_bytes);
  EXPECT_LE(allocated_bytes(options_.directory), options_.capacity_bytes);
  EXPECT_TRUE(harness->read(blocks[1]).ok());
}

TEST_F(DiskStoreBasics, AWriteFindsTheRoomOfAnEraseAskedForBeforeIt) {
  options_.capacity_bytes = options_.file_bytes = 4 * mib;
  const auto harness = open();
  const TestBlock first = test_block(space_, 1, 2'000'000), second = test_block(space_, 2, 2'000'000);
  ASSERT_EQ(harness->write(first).status.to_string(), "ok");
  EXPECT_EQ(harness->write(second).status.code(), StatusCode::no_space);
  harness->store().erase(first.key);
  EXPECT_TRUE(harness->write(second).status.ok());
  EXPECT_TRUE(harness->read(second).ok());
  EXPECT_EQ(harness->read(first).code(), StatusCode::not_found);
}

TEST_F(DiskStoreBasics, ReusedRoomNeverServesOldBytes) {
  options_.capacity_bytes = options_.file_bytes = mib;
  const auto harness = open();
  std::vector<TestBlock> blocks;
  for (std::uint64_t i = 0; i < 40; ++i) {
    blocks.push_back(test_block(space_, i, 30'000 + 5000 * (i % 7)));
    if (i >= 10) harness->store().erase(blocks[i - 10].key);
    ASSERT_TRUE(harness->write(blocks.back()).status.ok());
    for (std::size_t j = 0; j < blocks.size(); ++j)
      ASSERT_EQ(harness->read(blocks[j]).code(),
                j + 10 > i ? StatusCode::ok : StatusCode::not_found);
  }
}

TEST_F(DiskStoreBasics, AnEraseWaitsForTheReadsBeforeIt) {
  const auto harness = open();
  const TestBlock block = test_block(space_, 1, mib);
  ASSERT_TRUE(harness->write(block).status.ok());
  std::vector<AlignedBuffer> destinations(64);
  for (std::size_t i = 0; i < destinations.size(); ++i) {
    destinations[i].ensure(block.bytes);
    harness->store().read(read_of(block, 100 + i, {destinations[i].data(), block.bytes}));
  }
  harness->store().erase(block.key);
  const TestBlock other = test_block(space_, 2, mib);
  harness->store().write(write_of(other, 99));
  EXPECT_TRUE(harness->wait(99).status.ok());
  for (std::size_t i = 0; i < destinations.size(); ++i) {
    EXPECT_TRUE(harness->wait(100 + i).status.ok());
    EXPECT_TRUE(std::equal(block.payload().begin(), block.payload().end(), destinations[i].data()));
  }
}

TEST_F(DiskStoreBasics, ClosesInTheMiddleOfWork) {
  for (int round = 0; round < 5; ++round) {
    auto harness = open();
    std::vector<TestBlock> blocks;
    for (std::uint64_t i = 0; i < 100; ++i) {
      blocks.push_back(test_block(space_, i, 20'000));
      harness->store().write(write_of(blocks.back(), 1000 + i));
      if (i % 3 == 0) harness->store().erase(blocks.back().key);
    }
    harness.reset();
    harness = open();
    for (const TestBlock& block : blocks) {
      const Status read = harness->read(block);
      EXPECT_TRUE(read.ok() || read.code() == StatusCode::not_found) << read.to_string();
    }
  }
}

TEST_F(DiskStoreBasics, WorksWhereThereIsNoDirectIo) {
  struct stat status;
  if (::stat("/dev/shm", &status) != 0 || ::access("/dev/shm", W_OK) != 0)
    GTEST_SKIP() << "no tmpfs to write to";
  std::string name = "/dev/shm/terrace-disk-test-XXXXXX";
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  options_.directory = name;
  {
    const auto harness = open();
    const TestBlock block = test_block(space_, 1, 50'000);
    EXPECT_TRUE(harness->write(block).status.ok());
    EXPECT_TRUE(harness->read(block).ok());
  }
  std::filesystem::remove_all(name);
}

}  // namespace
}  // namespace terrace::storage
