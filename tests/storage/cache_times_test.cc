// What an acquire waited for.
#include "core/checksum.h"
#include "tests/storage/support/remote_fixture.h"

namespace terrace::storage {
namespace {

class CacheTimes : public RemoteFixture {
 protected:
  void acquire(std::span<const BlockKey> keys, std::uint32_t wait_ms = 0) {
    times_ = std::make_shared<AcquireTimes>();
    cache_->acquire(cache_->open_session(), 1, space_, keys, {.wait_ms = wait_ms, .times = times_},
                    [](auto) {});
  }
  static constexpr std::int64_t ms = 1'000'000;

  std::shared_ptr<AcquireTimes> times_;
};

TEST_F(CacheTimes, OfTheDiskAndOfAFailure) {
  start({});
  const Prompt a = prompt(1, 2);
  put(a, 0, 2);
  finish_everything();
  start({});
  acquire(a.keys);
  clock_.advance_ms(5);
  finish_disk();
  EXPECT_EQ(times_->disk_ns, 5 * ms);
  clock_.advance_ms(2);
  finish_disk(0, Status(StatusCode::io_error, "told to fail"));
  EXPECT_EQ(times_->disk_ns, 7 * ms);
  EXPECT_EQ(times_->host_ns + times_->redis_ns + times_->check_ns + times_->others_ns, 0);
}

TEST_F(CacheTimes, OfACheck) {
  start({.disk_blocks = 0});
  const Prompt a = prompt(1, 1);
  put(cache_->open_session(), 1, a, 0, 1);
  acquire(a.keys);
  clock_.advance_ms(3);
  finish_copy();
  EXPECT_EQ(times_->check_ns, 3 * ms);
}

TEST_F(CacheTimes, OfWhatOthersCompute) {
  start({});
  const Prompt a = prompt(1, 1);
  const SessionId other = cache_->open_session();
  cache_->reserve(other, 1, space_, a.keys, 0);
  acquire(a.keys, 1000);
  clock_.advance_ms(4);
  cache_->end_session(other);
  EXPECT_EQ(times_->others_ns, 4 * ms);
}

TEST_F(CacheTimes, OfRedis) {
  start(with_remote());
  const Prompt p = prompt(1, 1);
  write_elsewhere(p, 0, 1);
  EXPECT_EQ(matched(p), 1u);
  acquire(p.keys);
  clock_.advance_ms(6);
  finish_remote();
  EXPECT_EQ(times_->redis_ns, 6 * ms);
}

}  // namespace
}  // namespace terrace::storage
