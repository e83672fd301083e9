// Waits end when their limits are over, and not at the next tick.
#include "cache_daemon/deadline_timer.h"

#include <gtest/gtest.h>
#include <kj/async-io.h>

#include "storage/device/host_accelerator.h"
#include "tests/storage/support/manual_clock.h"

namespace terrace::daemon {
namespace {

class DeadlineTimerTest : public ::testing::Test {
 protected:
  ~DeadlineTimerTest() noexcept override = default;

  void SetUp() override {
    SpaceDescriptor descriptor;
    descriptor.numerics_id = "test";
    descriptor.kv_dtype = "bf16";
    descriptor.layout_id = "cpu-tile32";
    descriptor.block_bytes = 64 << 10;
    storage::CacheOptions options;
    options.device_capacity_bytes = options.slab_bytes = 4 << 20;
    cache_ = storage::TieredCache::create(options, accelerator_, nullptr, clock_).value();
    space_ = cache_->open_space(descriptor).value();
    key_ = derive_block_key(descriptor.digest(), std::vector<Token>(32, 5));
    cache_->reserve(cache_->open_session(), 1, space_, {&key_, 1}, 0);
    session_ = cache_->open_session();
    timer_.emplace(kj_timer_, *cache_, clock_);
  }

  void wait_for(std::uint32_t wait_ms) {
    cache_->acquire(session_, next_lease_++, space_, {&key_, 1}, {.wait_ms = wait_ms},
                    [this](auto) { ++answers_; });
    timer_->look();
  }
  void pass_ms(std::int64_t ms) {
    clock_.advance_ms(ms);
    kj_timer_.advanceTo(kj_timer_.now() + ms * kj::MILLISECONDS);
    io_.waitScope.poll();
  }

  kj::AsyncIoContext io_ = kj::setupAsyncIo();
  kj::TimerImpl kj_timer_{kj::origin<kj::TimePoint>()};
  storage::ManualClock clock_;
  storage::HostAccelerator accelerator_;
  std::unique_ptr<storage::TieredCache> cache_;
  storage::SpaceId space_ = 0;
  storage::SessionId session_ = 0;
  storage::LeaseId next_lease_ = 1;
  BlockKey key_;
  int answers_ = 0;
  std::optional<DeadlineTimer> timer_;
};

TEST_F(DeadlineTimerTest, EndsEachWaitAtItsLimit) {
  wait_for(30);
  wait_for(10);  // sooner than what it is set for
  wait_for(20);
  pass_ms(9);
  EXPECT_EQ(answers_, 0);
  pass_ms(1);
  EXPECT_EQ(answers_, 1);
  pass_ms(10);
  EXPECT_EQ(answers_, 2);
  pass_ms(10);
  EXPECT_EQ(answers_, 3);
  wait_for(5);  // after it had nothing to do
  pass_ms(5);
  EXPECT_EQ(answers_, 4);
}

// The loop's time stands still during a turn, so a timer may fire before the cache's time has come.
TEST_F(DeadlineTimerTest, ThatFiresEarlyWaitsForTheRest) {
  wait_for(10);
  kj_timer_.advanceTo(kj_timer_.now() + 10 * kj::MILLISECONDS);
  io_.waitScope.poll();
  EXPECT_EQ(answers_, 0);
  pass_ms(10);
  EXPECT_EQ(answers_, 1);
}

}  // namespace
}  // namespace terrace::daemon
