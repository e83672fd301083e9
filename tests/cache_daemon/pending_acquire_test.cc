// An acquire that waits for the disk is answered also when what it waits for is not wanted any
// more.
#include <gtest/gtest.h>
#include <kj/async-io.h>

#include "cache_daemon/limits.h"
#include "cache_daemon/session.h"
#include "core/clock.h"
#include "storage/device/host_accelerator.h"

namespace terrace::daemon {
namespace {

SpaceDescriptor descriptor() {
  SpaceDescriptor space;
  space.numerics_id = "test";
  space.kv_dtype = "bf16";
  space.layout_id = "cpu-tile32";
  space.block_bytes = 64 << 10;
  return space;
}

const std::vector<Token> tokens(32, 5);

// Has one block and never finishes reading it.
class StalledDisk final : public storage::DiskTier {
 public:
  std::vector<storage::RecoveredBlock> take_recovered_blocks() override {
    const BlockKey space = descriptor().digest();
    return {{.space = space,
             .key = derive_block_key(space, tokens),
             .parent = space,
             .tokens = tokens,
             .disk_bytes = 128 << 10,
             .recency = 1}};
  }
  std::vector<SpaceDescriptor> take_recovered_spaces() override { return {descriptor()}; }
  void add_space(const SpaceDescriptor&) override {}
  void write(storage::DiskWrite) override {}
  void read(storage::DiskRead) override {}
  void erase(const BlockKey&) override {}
  void touch(std::span<const BlockKey>, std::uint64_t) override {}
  std::vector<storage::DiskNote> take_recovered_notes() override { return {}; }
  void set_note(storage::DiskNote) override {}
  void flush(storage::Ticket) override {}
  void take_completions(std::vector<storage::DiskCompletion>&) override {}
  void set_notify(std::function<void()>) override {}
  storage::DiskUsage usage() const override { return {.capacity_bytes = 1 << 20}; }
};

class PendingAcquireTest : public ::testing::Test {
 protected:
  // KJ's destructors may throw; a test's may not.
  ~PendingAcquireTest() noexcept override = default;

  void SetUp() override {
    storage::CacheOptions options;
    options.device_capacity_bytes = 4 << 20;
    options.slab_bytes = 4 << 20;
    auto cache = storage::TieredCache::create(options, accelerator_,
                                              std::make_unique<StalledDisk>(), clock_);
    ASSERT_TRUE(cache.has_value()) << cache.error().message();
    cache_ = std::move(*cache);
    space_ = cache_->open_space(descriptor()).value();
    session_ = std::make_shared<Session>(*cache_, "test", std::nullopt, limits_);
  }

  auto acquire(storage::LeaseId lease) {
    const BlockKey key = derive_block_key(descriptor().digest(), tokens);
    return session_->acquire(lease, space_, {&key, 1}, {}).later;
  }

  kj::AsyncIoContext io_ = kj::setupAsyncIo();
  SystemClock clock_;
  storage::HostAccelerator accelerator_;
  std::unique_ptr<storage::TieredCache> cache_;
  storage::SpaceId space_ = 0;
  config::DaemonLimits limits_ = {.max_leases_per_session = 10};
  std::shared_ptr<Session> session_;
};

TEST_F(PendingAcquireTest, ReleasingItsLeaseAnswersWithNothing) {
  auto released = acquire(1);
  auto kept = acquire(2);
  ASSERT_FALSE(released.poll(io_.waitScope));
  session_->release(1);
  ASSERT_TRUE(released.poll(io_.waitScope));
  EXPECT_TRUE(released.wait(io_.waitScope).empty());
  EXPECT_FALSE(kept.poll(io_.waitScope));
}

TEST_F(PendingAcquireTest, SoManyMayWaitAndNoMore) {
  std::vector<decltype(acquire(1))> waiting;
  for (std::size_t i = 0; i < limits_.max_waiting_acquires_per_session; ++i)
    waiting.push_back(acquire(1));
  EXPECT_ANY_THROW(acquire(1));
  EXPECT_ANY_THROW(acquire(2));
  session_->release(1);
  EXPECT_NO_THROW(acquire(3));
}

TEST_F(PendingAcquireTest, ALeaseAsksForSoManyBlocksAndNoMore) {
  EXPECT_EQ(session_->reserve(1, space_, {}, 2).size(), 2u);
  EXPECT_ANY_THROW(session_->reserve(1, space_, {}, max_blocks_per_lease - 1));
  // Another lease has its own count, and a lease that was released begins anew.
  EXPECT_EQ(session_->reserve(2, space_, {}, 2).size(), 2u);
  session_->release(1);
  EXPECT_NO_THROW(session_->reserve(1, space_, {}, max_blocks_per_lease - 1));
}

TEST_F(PendingAcquireTest, TheEndOfItsSessionAnswersWithAFailure) {
  auto pending = acquire(1);
  session_->end();
  ASSERT_TRUE(pending.poll(io_.waitScope));
  EXPECT_ANY_THROW(pending.wait(io_.waitScope));
  EXPECT_EQ(cache_->stats().leases, 0u);
  EXPECT_ANY_THROW(acquire(2));
}

TEST_F(PendingAcquireTest, ASessionThatWasAbandonedKeepsItsLease) {
  auto pending = acquire(1);
  session_->abandon();
  ASSERT_TRUE(pending.poll(io_.waitScope));
  EXPECT_ANY_THROW(pending.wait(io_.waitScope));
  EXPECT_EQ(cache_->stats().leases, 1u);
}

}  // namespace
}  // namespace terrace::daemon
