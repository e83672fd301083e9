// Faults of real file systems: small ones that fill up, one that is remounted read-only. Needs the
// right to mount, in a mount namespace of the test's own; skips where it has none.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "tests/storage/disk/store_harness.h"

namespace terrace::storage {
namespace {

class RealMountTest : public ::testing::Test {
 protected:
  // Threads that start later (those of a store) are in the namespace, too. ctest runs each test in
  // a process of its own.
  void SetUp() override {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      GTEST_SKIP() << "no mount namespace of its own: " << std::strerror(errno);
    options_.directory = mount_point_ + "/disk";
  }
  void TearDown() override {
    if (mounted_) ::umount2(mount_point_.c_str(), MNT_DETACH);
  }
  bool mount_tmpfs(const char* size) {
    mounted_ = ::mkdir(mount_point_.c_str(), 0700) == 0 &&
               ::mount("none", mount_point_.c_str(), "tmpfs", 0, size) == 0;
    return mounted_;
  }
  std::unique_ptr<StoreHarness> open() {
    auto harness = open_harness(options_);
    if (harness) harness->store().add_space(space_);
    return harness;
  }

  TempDirectory directory_;
  const std::string mount_point_ = directory_.path() + "/mount";
  DiskOptions options_ = small_options(directory_.path());
  SpaceDescriptor space_ = test_space();
  bool mounted_ = false;
};

TEST_F(RealMountTest, AFullFileSystemCostsOnlyWhatDoesNotFit) {
  if (!mount_tmpfs("size=6m")) GTEST_SKIP() << "no tmpfs: " << std::strerror(errno);
  options_.capacity_bytes = 64 * mib;  // more than there is
  options_.file_bytes = mib;
  std::vector<TestBlock> kept;
  {
    const auto harness = open();
    ASSERT_NE(harness, nullptr);
    Status status;
    for (std::uint64_t seed = 0; status.ok() && seed < 1000; ++seed) {
      kept.push_back(test_block(space_, seed, 50'000));
      status = harness->write(kept.back()).status;
    }
    EXPECT_EQ(status.code(), StatusCode::no_space) << status.to_string();
    kept.pop_back();
    ASSERT_GT(kept.size(), 40u);
    for (const TestBlock& block : kept) EXPECT_TRUE(harness->read(block).ok());
    // Room that is freed is used again.
    harness->store().erase(kept.front().key);
    kept.erase(kept.begin());
    kept.push_back(test_block(space_, 5000, 50'000));
    EXPECT_EQ(harness->write(kept.back()).status.to_string(), "ok");
  }
  const auto harness = open();
  ASSERT_NE(harness, nullptr);
  for (const TestBlock& block : kept) EXPECT_EQ(harness->read(block).to_string(), "ok");
}

TEST_F(RealMountTest, ARemountReadOnlyFailsWritesAndPasses) {
  if (!mount_tmpfs("size=64m")) GTEST_SKIP() << "no tmpfs: " << std::strerror(errno);
  options_.file_bytes = 256 * kib;  // so that files are made on the way
  const TestBlock before = test_block(space_, 1, 100'000), during = test_block(space_, 2, 600'000);
  {
    const auto harness = open();
    ASSERT_NE(harness, nullptr);
    ASSERT_TRUE(harness->write(before).status.ok());
    ASSERT_TRUE(harness->flush().status.ok());
  }
  const auto remount = [this](unsigned long flags) {
    return ::mount(nullptr, mount_point_.c_str(), nullptr, MS_REMOUNT | flags, nullptr) == 0;
  };
  // A start on it finds that it cannot write, and throws nothing away.
  ASSERT_TRUE(remount(MS_RDONLY)) << std::strerror(errno);
  const auto refused = DiskStore::open(options_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), StatusCode::io_error) << refused.error().to_string();
  ASSERT_TRUE(remount(0));
  {
    const auto harness = open();
    ASSERT_NE(harness, nullptr);
    // Only the mount point is made read-only (as a container does it): files that are open for
    // writing keep the file system itself from it.
    const auto bind = [this](unsigned long flags) {
      return ::mount(nullptr, mount_point_.c_str(), nullptr, MS_REMOUNT | MS_BIND | flags,
                     nullptr) == 0;
    };
    if (bind(MS_RDONLY)) {
      EXPECT_EQ(harness->write(during).status.code(), StatusCode::io_error);
      EXPECT_TRUE(harness->read(before).ok());
      ASSERT_TRUE(bind(0));
    }
    EXPECT_EQ(harness->write(during).status.to_string(), "ok");
    EXPECT_TRUE(harness->read(before).ok());
    EXPECT_TRUE(harness->read(during).ok());
  }
  const auto harness = open();
  ASSERT_NE(harness, nullptr);
  EXPECT_EQ(harness->store().take_recovered_blocks().size(), 2u);
  EXPECT_TRUE(harness->read(before).ok());
  EXPECT_TRUE(harness->read(during).ok());
}

}  // namespace
}  // namespace terrace::storage
