// Fails the Nth operation of the file system, N = 0, 1, ... until nothing fails any more, on the
// paths that write and that recover. A failure costs the request that met it, nothing else.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <future>
#include <set>

#include "tests/storage/disk/faulty_world.h"
#include "tests/storage/disk/store_harness.h"

namespace terrace::storage {
namespace {

namespace fs = std::filesystem;

// Keeps the first sync back until a write completes, then fails it.
class LateSyncFailure final : public Ring {
 public:
  LateSyncFailure(std::unique_ptr<Ring> ring, std::promise<void>& sync_began)
      : ring_(std::move(ring)), sync_began_(sync_began) {}

  std::string_view name() const override { return "late sync failure"; }
  void submit(const RingOperation& operation) override {
    if (operation.kind == RingOperation::Kind::sync && !sync_seen_) {
      sync_seen_ = true;
      kept_back_ = operation.tag;
      sync_began_.set_value();
      return;
    }
    if (operation.kind == RingOperation::Kind::write) writes_.insert(operation.tag);
    ring_->submit(operation);
  }
  void wait(std::vector<RingCompletion>& out, std::optional<std::int64_t> timeout_ns) override {
    ring_->wait(out, timeout_ns);
    const bool wrote = std::ranges::any_of(
        out, [&](const RingCompletion& completion) { return writes_.contains(completion.tag); });
    if (wrote && kept_back_) out.push_back({*std::exchange(kept_back_, std::nullopt), -EIO});
  }
  void wake() override { ring_->wake(); }

 private:
  const std::unique_ptr<Ring> ring_;
  std::promise<void>& sync_began_;
  std::set<std::uint64_t> writes_;
  std::optional<std::uint64_t> kept_back_;
  bool sync_seen_ = false;
};

class DiskFaultTest : public ::testing::Test {
 protected:
  std::unique_ptr<StoreHarness> open(DiskWorld world = {}) {
    auto harness = open_harness(options_, std::move(world));
    if (harness) harness->store().add_space(space_);
    return harness;
  }

  TempDirectory directory_;
  DiskOptions options_ = small_options(directory_.path());
  SpaceDescriptor space_ = test_space();
  std::shared_ptr<FaultPlan> plan_ = std::make_shared<FaultPlan>();
};

TEST_F(DiskFaultTest, AWritePathThatFailsOnceAcknowledgesOnlyWhatIsThere) {
  options_.file_bytes = 256 * kib;  // so that files are made on the way
  for (const int error_number : {EIO, ENOSPC}) {
    bool happened = true;
    for (std::int64_t n = 0; happened; ++n) {
      SCOPED_TRACE(n);
      ASSERT_LT(n, 1000);
      fs::remove_all(options_.directory);
      std::vector<TestBlock> blocks;
      std::vector<bool> acknowledged;
      {
        const auto harness = open_harness(options_, faulty_world(plan_, true, true));
        plan_->fail(n, error_number);
        harness->store().add_space(space_);
        for (std::uint64_t i = 0; i < 6; ++i) {
          blocks.push_back(test_block(space_, i, 100'000));
          const Status status = harness->write(blocks.back()).status;
          EXPECT_TRUE(status.ok() || status.code() == StatusCode::io_error ||
                      status.code() == StatusCode::no_space)
              << status.to_string();
          acknowledged.push_back(status.ok());
          if (i == 3) harness->store().erase(blocks[0].key);
        }
        happened = plan_->happened();
        plan_->stop();
        // It is over: what failed succeeds now.
        for (std::size_t i = 1; i < blocks.size(); ++i) {
          EXPECT_EQ(harness->write(blocks[i]).status.to_string(), "ok");
          EXPECT_EQ(harness->read(blocks[i]).to_string(), "ok");
        }
        EXPECT_EQ(harness->store().usage().quarantined_records, 0u);
      }
      const auto harness = open();
      EXPECT_EQ(harness->read(blocks[0]).code(), StatusCode::not_found);
      for (std::size_t i = 1; i < blocks.size(); ++i)
        EXPECT_EQ(harness->read(blocks[i]).to_string(), "ok");
      EXPECT_LE(std::count(acknowledged.begin(), acknowledged.end(), false), 1);
    }
  }
}

TEST_F(DiskFaultTest, AReadThatFailsIsAnErrorAndTheBlockStays) {
  const auto harness = open(faulty_world(plan_, false, true));
  const TestBlock block = test_block(space_, 1, 50'000);
  ASSERT_TRUE(harness->write(block).status.ok());
  plan_->fail(0, EIO);
  EXPECT_EQ(harness->read(block).code(), StatusCode::io_error);
  EXPECT_TRUE(harness->read(block).ok());
  EXPECT_EQ(harness->store().usage().quarantined_records, 0u);
}

TEST_F(DiskFaultTest, AFullFileSystemIsNoSpaceAndPasses) {
  options_.file_bytes = 256 * kib;
  const auto harness = open(faulty_world(plan_, true, true));
  ASSERT_TRUE(harness->write(test_block(space_, 0, 150'000)).status.ok());
  plan_->fail(0, ENOSPC, true);
  for (std::uint64_t i = 1; i < 5; ++i)
    EXPECT_EQ(harness->write(test_block(space_, i, 150'000)).status.code(), StatusCode::no_space);
  plan_->stop();
  for (std::uint64_t i = 1; i < 5; ++i)
    EXPECT_TRUE(harness->write(test_block(space_, i, 150'000)).status.ok());
}

TEST_F(DiskFaultTest, AFileForWhichThereIsNoRoomTakesNone) {
  const std::string path = directory_.path() + "/file";
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_TRUE(fd);
  const std::uint64_t more_than_free = fs::space(path).capacity + mib;
  EXPECT_EQ(make_system_files()->preallocate(fd.get(), more_than_free).code(),
            StatusCode::no_space);
  struct stat status;
  ASSERT_EQ(::fstat(fd.get(), &status), 0);
  EXPECT_EQ(status.st_size, 0);
  EXPECT_EQ(status.st_blocks, 0);
}

TEST_F(DiskFaultTest, ADeviceThatIsGoneForAWhileCostsNoRoom) {
  const auto harness = open(faulty_world(plan_, false, true));
  plan_->fail(0, EIO, true);
  for (std::uint64_t i = 0; i < 200; ++i)
    EXPECT_EQ(harness->write(test_block(space_, i, 150'000)).status.code(), StatusCode::io_error);
  plan_->stop();
  std::uint64_t stored = 0;
  for (std::uint64_t i = 0;; ++i) {
    const DiskCompletion written = harness->write(test_block(space_, i, 150'000));
    if (!written.status.ok()) break;
    stored += written.disk_bytes;
  }
  EXPECT_GT(stored, options_.capacity_bytes * 9 / 10);
}

TEST_F(DiskFaultTest, ASyncThatFailsTakesWhatWasWrittenMeanwhileWithIt) {
  std::promise<void> sync_began;
  DiskWorld world;
  world.make_ring = [&](RingKind kind, unsigned depth) -> Result<std::unique_ptr<Ring>> {
    auto ring = make_ring(kind, depth);
    if (!ring) return ring;
    return std::make_unique<LateSyncFailure>(std::move(*ring), sync_began);
  };
  const auto harness = open(std::move(world));
  const TestBlock first = test_block(space_, 1, 50'000), second = test_block(space_, 2, 50'000);
  const Ticket first_write = harness->next_ticket(), second_write = harness->next_ticket();
  harness->store().write(write_of(first, first_write));
  sync_began.get_future().wait();
  harness->store().write(write_of(second, second_write));
  EXPECT_EQ(harness->wait(first_write).status.code(), StatusCode::io_error);
  EXPECT_EQ(harness->wait(second_write).status.code(), StatusCode::io_error);
  for (const TestBlock& block : {std::cref(first), std::cref(second)}) {
    EXPECT_EQ(harness->read(block).code(), StatusCode::not_found);
    EXPECT_TRUE(harness->write(block).status.ok());
    EXPECT_TRUE(harness->read(block).ok());
  }
}

TEST_F(DiskFaultTest, ARecoveryThatFailsOnceThrowsNothingAway) {
  std::vector<TestBlock> blocks;
  {
    const auto harness = open();
    for (std::uint64_t i = 0; i < 5; ++i) {
      blocks.push_back(test_block(space_, i, 100'000));
      ASSERT_TRUE(harness->write(blocks.back()).status.ok());
    }
  }
  for (const bool lost_index : {false, true}) {
    bool happened = true;
    for (std::int64_t n = 0; happened; ++n) {
      SCOPED_TRACE(n);
      ASSERT_LT(n, 1000);
      if (lost_index) fs::remove_all(options_.directory + "/index");
      plan_->fail(n, n % 2 == 0 ? EIO : EMFILE);
      {
        const auto store = DiskStore::open(options_, faulty_world(plan_, true, false));
        happened = plan_->happened();
        plan_->stop();
        if (!store) {
          EXPECT_EQ(store.error().code(), StatusCode::io_error) << store.error().to_string();
        }
      }
      const auto harness = open();
      EXPECT_EQ(harness->store().take_recovered_blocks().size(), blocks.size());
      for (const TestBlock& block : blocks) EXPECT_TRUE(harness->read(block).ok());
    }
  }
}

// A limit on the size of files stops the index's log while the data files, made before, go on.
TEST_F(DiskFaultTest, AnIndexThatCannotBeWrittenFailsRequestsAndComesBack) {
  ::signal(SIGXFSZ, SIG_IGN);
  options_.fsync = false;  // so that every write waits for its entry
  std::vector<TestBlock> kept;
  {
    const auto harness = open();
    kept.push_back(test_block(space_, 0, 4096));
    ASSERT_TRUE(harness->write(kept[0]).status.ok());
    rlimit before;
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit small{48 * kib, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    std::uint64_t seed = 1;
    Status failed;
    TestBlock block;
    for (; failed.ok() && seed < 10'000; ++seed) {
      block = test_block(space_, seed, 4096);
      failed = harness->write(block).status;
      if (failed.ok()) harness->store().erase(block.key);
    }
    EXPECT_EQ(failed.code(), StatusCode::io_error) << failed.to_string();
    EXPECT_EQ(harness->read(block).code(), StatusCode::not_found);
    EXPECT_TRUE(harness->read(kept[0]).ok());
    harness->store().erase(kept[0].key);
    harness->store().set_note({"told", "while it failed"});
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    // An index that cannot even be opened says nothing against the payload.
    const std::string current = options_.directory + "/index/CURRENT";
    fs::rename(current, current + ".away");
    failed = harness->write(block).status;
    EXPECT_EQ(failed.code(), StatusCode::io_error) << failed.to_string();
    fs::rename(current + ".away", current);
    // Over: the index is opened anew and takes everything, the erase included.
    kept.clear();
    kept.push_back(test_block(space_, 2000, 4096));
    kept.push_back(test_block(space_, 2001, 4096));
    for (const TestBlock& one : kept) {
      const DiskCompletion written = harness->write(one);
      EXPECT_EQ(written.status.to_string(), "ok");
    }
    EXPECT_EQ(harness->flush().status.to_string(), "ok");
  }
  const auto harness = open();
  EXPECT_EQ(harness->store().take_recovered_blocks().size(), kept.size());
  for (const TestBlock& one : kept) EXPECT_TRUE(harness->read(one).ok());
  EXPECT_EQ(harness->store().take_recovered_notes().size(), 1u);
}

// What was acknowledged is found through the write window.
TEST_F(DiskFaultTest, AnEndRightAfterAFailureOfTheIndexLosesNothingThatWasTold) {
  ::signal(SIGXFSZ, SIG_IGN);
  {
    const auto harness = open();
    rlimit before;
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit none{1, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
    harness->store().set_note({"told", "while it failed"});
    EXPECT_EQ(harness->flush().status.code(), StatusCode::io_error);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  }
  EXPECT_EQ(open()->store().take_recovered_notes().size(), 1u);
}

TEST_F(DiskFaultTest, AnAcknowledgedBlockOutlivesAnIndexThatTakesNothingMore) {
  std::vector<TestBlock> kept;
  {
    const auto harness = open();
    kept.push_back(test_block(space_, 0, 20'000));
    ASSERT_TRUE(harness->write(kept[0]).status.ok());
    ASSERT_TRUE(harness->flush().status.ok());
    ::signal(SIGXFSZ, SIG_IGN);
    for (std::uint64_t seed = 1; seed < 4; ++seed) {
      kept.push_back(test_block(space_, seed, 20'000));
      ASSERT_TRUE(harness->write(kept.back(), 70 + seed).status.ok());
    }
    rlimit before;
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit none{1, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
    EXPECT_EQ(harness->flush().status.code(), StatusCode::io_error);
    EXPECT_EQ(harness->write(test_block(space_, 10, 20'000)).status.code(), StatusCode::io_error);
    for (const TestBlock& one : kept) EXPECT_TRUE(harness->read(one).ok());
    harness->close();
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  }
  for (const bool again : {false, true}) {
    SCOPED_TRACE(again);
    const auto harness = open();
    EXPECT_EQ(harness->store().take_recovered_blocks().size(), kept.size());
    for (const TestBlock& one : kept) EXPECT_EQ(harness->read(one).to_string(), "ok");
    EXPECT_EQ(harness->store().usage().quarantined_records, 0u);
  }
}

// RocksDB may call this corruption; it is not, and must not cost the index or the records.
TEST_F(DiskFaultTest, NoFreeFileDescriptorsIsNotCorruption) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizers need file descriptors themselves";
#endif
  TestBlock block = test_block(space_, 1, 50'000);
  {
    const auto harness = open();
    ASSERT_TRUE(harness->write(block, 77).status.ok());
  }
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  int refused = 0;
  for (rlim_t limit = 3; limit < 40; ++limit) {
    const rlimit few{limit, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    const auto store = DiskStore::open(options_);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    if (!store) {
      ++refused;
      EXPECT_TRUE(store.error().code() == StatusCode::io_error ||
                  store.error().code() == StatusCode::unavailable)
          << store.error().to_string();
    }
  }
  EXPECT_GT(refused, 0);
  const auto harness = open();
  const auto recovered = harness->store().take_recovered_blocks();
  ASSERT_EQ(recovered.size(), 1u);
  EXPECT_EQ(recovered[0].recency, 77u);  // a rebuilt index would not know it
  EXPECT_TRUE(harness->read(block).ok());
}

}  // namespace
}  // namespace terrace::storage
