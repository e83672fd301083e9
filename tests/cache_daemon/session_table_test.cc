// Whom the daemon gives a session.
#include "cache_daemon/session_table.h"

#include <gtest/gtest.h>
#include <kj/async-io.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/clock.h"
#include "storage/device/host_accelerator.h"

namespace terrace::daemon {
namespace {

// As long as it lives, no descriptor can be opened.
class NoMoreDescriptors {
 public:
  NoMoreDescriptors() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit none = before_;
    none.rlim_cur = 0;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoMoreDescriptors() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_{};
};

class SessionTableTest : public ::testing::Test {
 protected:
  // KJ's destructors may throw; a test's may not.
  ~SessionTableTest() noexcept override = default;

  void SetUp() override {
    storage::CacheOptions options;
    options.device_capacity_bytes = 4 << 20;
    options.slab_bytes = 4 << 20;
    auto cache = storage::TieredCache::create(options, accelerator_, nullptr, clock_);
    ASSERT_TRUE(cache.has_value()) << cache.error().message();
    cache_ = std::move(*cache);
    table_ = std::make_unique<SessionTable>(*cache_, limits_);
  }

  auto open_for(pid_t pid) {
    return table_->open(std::make_shared<PeerProcess>(io_.unixEventPort, pid), "test", std::nullopt,
                        [] {});
  }

  const config::DaemonLimits limits_ = {.max_sessions = 10, .max_leases_per_session = 10};
  kj::AsyncIoContext io_ = kj::setupAsyncIo();
  SystemClock clock_;
  storage::HostAccelerator accelerator_;
  std::unique_ptr<storage::TieredCache> cache_;
  std::unique_ptr<SessionTable> table_;
};

TEST_F(SessionTableTest, AProcessThatCannotBeWatchedGetsNoSession) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizers need descriptors of their own";
#endif
  {
    const NoMoreDescriptors none;
    const auto refused = open_for(::getpid());
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), StatusCode::resource_exhausted);
  }
  EXPECT_EQ(table_->size(), 0u);
  EXPECT_TRUE(open_for(::getpid()).has_value());
}

TEST_F(SessionTableTest, AProcessOfAnotherPidNamespaceGetsASession) {
  EXPECT_TRUE(open_for(0).has_value());
}

// A region is memory of the machine: it must not stay with slots that nobody can use.
TEST_F(SessionTableTest, AStagingRegionEndsWithTheConnection) {
  const auto session = open_for(::getpid());
  ASSERT_TRUE(session.has_value());
  const std::weak_ptr<StagingRegion> region = (*session)->open_staging(1 << 20, 1 << 20);
  SpaceDescriptor descriptor;
  descriptor.numerics_id = descriptor.kv_dtype = descriptor.layout_id = "test";
  descriptor.block_bytes = 64 << 10;
  const auto space = cache_->open_space(descriptor);
  ASSERT_TRUE(space.has_value()) << space.error().message();
  ASSERT_EQ((*session)->reserve(1, *space, {}, 1).size(), 1u);
  table_->connection_lost((*session)->id());
  EXPECT_EQ(cache_->stats().quarantined_slots, 1u);
  EXPECT_TRUE(region.expired());
}

}  // namespace
}  // namespace terrace::daemon
