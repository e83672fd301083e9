// What probes are told while the daemon is not all there.
#include "cache_daemon/http/site.h"

#include <gtest/gtest.h>
#include <kj/async-unix.h>

#include "core/clock.h"
#include "storage/device/host_accelerator.h"
#include "tests/support/temp_dir.h"

namespace terrace::daemon {
namespace {

class SiteTest : public ::testing::Test {
 protected:
  SiteTest() {
    config_.socket_path = directory_.file("terraced.sock");
    config_.device.capacity_bytes = 8 << 20;
    cache_ = std::move(
        *storage::TieredCache::create({.slab_bytes = 4 << 20}, accelerator_, nullptr, clock_));
    device_.emplace(config_, accelerator_, *cache_, "own");
    sessions_.emplace(*cache_, config_.limits);
    deadlines_.emplace(io_.provider->getTimer(), *cache_, clock_);
    context_.emplace(Context{.config = config_,
                             .cache = *cache_,
                             .access = access_,
                             .sessions = *sessions_,
                             .deadlines = *deadlines_,
                             .device = *device_,
                             .event_port = io_.unixEventPort,
                             .boot_id = "boot",
                             .started = std::chrono::steady_clock::now()});
    site_.emplace(*context_);
  }
  ~SiteTest() noexcept override = default;

  HttpAnswer get(kj::StringPtr path) { return site_->answer(path).wait(io_.waitScope); }

  kj::AsyncIoContext io_ = kj::setupAsyncIo();
  test_support::TempDir directory_;
  SystemClock clock_;
  storage::HostAccelerator accelerator_;
  config::DaemonConfig config_;
  std::unique_ptr<storage::TieredCache> cache_;
  std::optional<DeviceTier> device_;
  AccessPolicy access_ = *AccessPolicy::load({});
  std::optional<SessionTable> sessions_;
  std::optional<DeadlineTimer> deadlines_;
  std::optional<Context> context_;
  std::optional<Site> site_;
};

TEST_F(SiteTest, IsReadyWhenAWorkerWouldBeServed) {
  EXPECT_EQ(get("/healthz").status, 200u);
  EXPECT_EQ(get("/readyz").status, 503u);  // no device tier: no session is opened
  ASSERT_TRUE(device_->start().ok());
  EXPECT_EQ(get("/readyz").status, 200u);
  context_->draining = true;
  EXPECT_EQ(get("/readyz").status, 503u);
  EXPECT_EQ(get("/readyz").body, "draining\n");
  EXPECT_EQ(get("/healthz").status, 200u);
}

}  // namespace
}  // namespace terrace::daemon
