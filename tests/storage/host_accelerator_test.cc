#include "storage/device/host_accelerator.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <condition_variable>
#include <map>

#include "core/checksum.h"
#include "storage/arena/memory_file.h"
#include "tests/storage/support/cache_fixture.h"

namespace terrace::storage {
namespace {

// Counts wakes, so that a test can wait for the next.
class Wakes {
 public:
  void operator()() {
    const std::lock_guard lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  // Runs `look` until it is true, once after each wake.
  template <typename Look>
  void wait(Look look) {
    std::unique_lock lock(mutex_);
    for (;;) {
      const std::uint64_t seen = count_;
      lock.unlock();
      if (look()) return;
      lock.lock();
      changed_.wait(lock, [&] { return count_ != seen; });
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t count_ = 0;
};

TEST(HostAccelerator, CopiesAndChecksumsAndTellsOfEach) {
  HostAccelerator accelerator;
  EXPECT_EQ(accelerator.name(), "emulated");
  Wakes wakes;
  accelerator.set_notify([&] { wakes(); });
  constexpr std::size_t bytes = 100'000, count = 20;
  auto memory = accelerator.allocate(count * bytes);
  ASSERT_TRUE(memory);
  std::vector<std::vector<std::byte>> sources;
  for (std::size_t i = 0; i < count; ++i) {
    sources.emplace_back(bytes, static_cast<std::byte>(i));
    accelerator.copy_async(2 * i, (*memory)->data() + i * bytes, sources[i]);
    accelerator.checksum_async(2 * i + 1, sources[i]);
  }
  std::map<std::uint64_t, std::uint64_t> checksums;
  wakes.wait([&] {
    std::vector<CopyCompletion> done;
    accelerator.take_completions(done);
    for (const CopyCompletion& one : done) {
      EXPECT_TRUE(one.status.ok());
      EXPECT_TRUE(checksums.emplace(one.ticket, one.checksum).second);
    }
    return checksums.size() == 2 * count;
  });
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_TRUE(std::equal(sources[i].begin(), sources[i].end(), (*memory)->data() + i * bytes));
    EXPECT_EQ(checksums[2 * i], payload_checksum(sources[i]));
    EXPECT_EQ(checksums[2 * i + 1], payload_checksum(sources[i]));
  }
  accelerator.set_notify(nullptr);
}

TEST(HostAccelerator, SynchronizeWaitsForEverything) {
  HostAccelerator accelerator;
  std::vector<std::byte> from(1 << 20, std::byte{7}), to(10 * from.size());
  for (std::uint64_t i = 0; i < 10; ++i)
    accelerator.copy_async(i, to.data() + i * from.size(), from);
  accelerator.synchronize();
  std::vector<CopyCompletion> done;
  accelerator.take_completions(done);
  EXPECT_EQ(done.size(), 10u);
  EXPECT_EQ(to.back(), std::byte{7});
}

TEST(HostAccelerator, MayBeDestroyedWithWorkWaiting) {
  std::vector<std::byte> from(1 << 20), to(32 * from.size());
  HostAccelerator accelerator;
  for (std::uint64_t i = 0; i < 32; ++i)
    accelerator.copy_async(i, to.data() + i * from.size(), from);
}

TEST(MemoryFile, ClientsOfTheHostArenaMayNotWrite) {
  auto read_only = MemoryFile::create("test", 4096, MemoryFile::Clients::read_only);
  auto shared = MemoryFile::create("test", 4096, MemoryFile::Clients::read_write);
  ASSERT_TRUE(read_only && shared);
  (*read_only)->data()[0] = std::byte{1};
  EXPECT_FALSE(
      SharedMapping::map((*read_only)->exported_fd(), 4096, SharedMapping::Access::read_write));
  const auto mapped =
      SharedMapping::map((*read_only)->exported_fd(), 4096, SharedMapping::Access::read_only);
  ASSERT_TRUE(mapped);
  EXPECT_EQ(mapped->data()[0], std::byte{1});
  EXPECT_TRUE(
      SharedMapping::map((*shared)->exported_fd(), 4096, SharedMapping::Access::read_write));
}

TEST(MemoryFile, AClientOfTheDeviceArenaCannotLockOutOthers) {
  auto shared = MemoryFile::create("test", 4096, MemoryFile::Clients::read_write);
  ASSERT_TRUE(shared);
  EXPECT_FALSE(seal_against_writing((*shared)->exported_fd()).ok());
  EXPECT_TRUE(
      SharedMapping::map((*shared)->exported_fd(), 4096, SharedMapping::Access::read_write));
}

// The cache with threads that really copy.
class CacheOnHost : public CacheFixture {};

TEST_F(CacheOnHost, MovesBlocksBetweenDeviceAndHostAndChecksThem) {
  HostAccelerator accelerator;
  CacheOptions options;
  options.device_capacity_bytes = 8 * test_block_bytes;
  options.host_capacity_bytes = 32 * test_block_bytes;
  options.slab_bytes = 4 * test_block_bytes;
  options.clean_fraction = 1;
  auto cache = TieredCache::create(options, accelerator, nullptr, clock_);
  ASSERT_TRUE(cache);
  cache_ = std::move(*cache);
  Wakes wakes;
  cache_->set_wake([&] { wakes(); });
  auto mapping = SharedMapping::map(cache_->device_arena_fd(), cache_->device_arena_bytes(),
                                    SharedMapping::Access::read_write);
  ASSERT_TRUE(mapping);
  device_ = std::move(*mapping);
  space_ = *cache_->open_space(descriptor());
  digest_ = descriptor().digest();
  ASSERT_GE(cache_->host_arena_fd(), 0);

  const Prompt a = prompt(1, 6), b = prompt(2, 6);
  for (const Prompt* p : {&a, &b}) {
    for (std::size_t i = 0; i < 6; ++i) {
      wakes.wait([&] {
        cache_->run_completions();
        return put(*p, i, 1) == 1;
      });
    }
  }
  wakes.wait([&] {
    cache_->run_completions();
    return stats(Tier::host).blocks == 12;
  });
  const SessionId session = cache_->open_session();
  for (const Prompt* p : {&a, &b}) {
    bool done = false;
    std::vector<AcquiredBlock> got;
    cache_->acquire(session, 1, space_, p->keys, {}, [&](auto blocks) {
      got = std::move(blocks);
      done = true;
    });
    wakes.wait([&] {
      cache_->run_completions();
      return done;
    });
    EXPECT_EQ(got.size(), 6u);
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(holds(got[i].slot, p->keys[i]));
    cache_->release(session, 1);
    check();
  }
  EXPECT_GT(stats(Tier::host).promotions, 0u);
  cache_.reset();
}

}  // namespace
}  // namespace terrace::storage
