// When a daemon takes its device arena beside those of daemons before it.
#include "cache_daemon/device_tier.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/bytes.h"
#include "core/clock.h"
#include "storage/device/host_accelerator.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace terrace::daemon {
namespace {

constexpr std::uint64_t arena_bytes = 8 * mib;

class ArenaClaimsTest : public ::testing::Test {
 protected:
  std::size_t files() const {
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator(directory_.path()))
      ++count;
    return count;
  }

  test_support::TempDir directory_;
  const std::string socket_ = directory_.file("terraced.sock");
  const ArenaClaims claims_{socket_};
};

TEST_F(ArenaClaimsTest, AClaimLastsAsLongAsAnyDescriptorOfIt) {
  UniqueFd client;
  {
    auto claim = claims_.claim("a", 1000);
    ASSERT_TRUE(claim) << claim.error().to_string();
    EXPECT_EQ(claims_.claimed_by_others("a"), 0u);
    EXPECT_EQ(claims_.claimed_by_others("b"), 1000u);
    client.reset(::dup(claim->fd()));
  }
  // The daemon is gone, a client of it is not.
  EXPECT_EQ(claims_.claimed_by_others("b"), 1000u);
  auto second = claims_.claim("b", 300);
  ASSERT_TRUE(second);
  EXPECT_EQ(claims_.claimed_by_others("b"), 1000u);
  EXPECT_EQ(claims_.claimed_by_others("c"), 1300u);
  client.reset();
  EXPECT_EQ(claims_.claimed_by_others("b"), 0u);
  EXPECT_EQ(files(), 1u);  // b's
}

TEST_F(ArenaClaimsTest, NothingIsLeftBehindWhereNobodyHoldsAnything) {
  { auto claim = claims_.claim("a", 1000); }
  EXPECT_EQ(files(), 0u);
  // After a crash the file lies there, without a lock.
  std::ofstream(socket_ + ".arena-crashed") << "1000\n";
  std::ofstream(directory_.file("other.sock.arena-crashed")) << "1000\n";
  EXPECT_EQ(claims_.claimed_by_others("b"), 0u);
  EXPECT_EQ(files(), 1u);  // that of another daemon's socket
}

// A machine with as much room as the test says.
class RoomyAccelerator final : public storage::Accelerator {
 public:
  std::string name() const override { return "test"; }
  Result<std::uint64_t> available_bytes() const override { return available; }
  Result<std::unique_ptr<storage::DeviceMemory>> allocate(std::size_t bytes) override {
    if (full) return error(StatusCode::no_space, "full");
    return host_.allocate(bytes);
  }
  void copy_async(std::uint64_t ticket, std::byte* to, std::span<const std::byte> from) override {
    host_.copy_async(ticket, to, from);
  }
  void checksum_async(std::uint64_t ticket, std::span<const std::byte> from) override {
    host_.checksum_async(ticket, from);
  }
  void take_completions(std::vector<storage::CopyCompletion>& out) override {
    host_.take_completions(out);
  }
  void set_notify(std::function<void()> notify) override { host_.set_notify(std::move(notify)); }
  void synchronize() override { host_.synchronize(); }

  std::uint64_t available = 0;
  std::atomic<bool> full{false};

 private:
  storage::HostAccelerator host_;
};

class DeviceTierTest : public ArenaClaimsTest {
 protected:
  DeviceTierTest() {
    config_.socket_path = socket_;
    config_.device.capacity_bytes = arena_bytes;
    auto cache = storage::TieredCache::create({}, accelerator_, nullptr, clock_);
    EXPECT_TRUE(cache) << cache.error().to_string();
    cache_ = std::move(*cache);
  }

  std::unique_ptr<DeviceTier> make() {
    return std::make_unique<DeviceTier>(config_, accelerator_, *cache_, "own");
  }
  static bool becomes_ready(DeviceTier& tier) {
    return test_support::wait_until([&] {
      tier.retry();
      return tier.ready();
    });
  }

  SystemClock clock_;
  RoomyAccelerator accelerator_;
  config::DaemonConfig config_;
  std::unique_ptr<storage::TieredCache> cache_;
};

TEST_F(DeviceTierTest, TakesTheArenaAtOnceWhereNobodyUsesAnEarlierOne) {
  const auto tier = make();
  ASSERT_TRUE(tier->start().ok());
  EXPECT_TRUE(tier->ready());
  EXPECT_GE(tier->claim_fd(), 0);
  EXPECT_EQ(cache_->device_arena_bytes(), arena_bytes);
  EXPECT_EQ(claims_.claimed_by_others("next"), arena_bytes);
}

TEST_F(DeviceTierTest, WaitsUntilNoMoreOfAnEarlierArenaIsUsedThanMayBe) {
  for (const std::uint64_t overlap : {std::uint64_t{0}, arena_bytes - 1}) {
    config_.device.overlap_bytes = overlap;
    accelerator_.available = 1 * gib;
    cache_ = std::move(*storage::TieredCache::create({}, accelerator_, nullptr, clock_));
    auto earlier = claims_.claim("earlier", arena_bytes);
    const auto tier = make();
    ASSERT_TRUE(tier->start().ok());
    tier->retry();
    EXPECT_FALSE(tier->ready());
    EXPECT_NE(tier->reason().find("8 MiB of an earlier daemon's device arena"), std::string::npos)
        << tier->reason();
    EXPECT_EQ(cache_->device_arena_bytes(), 0u);
    *earlier = ArenaClaim();
    EXPECT_TRUE(becomes_ready(*tier));
    EXPECT_EQ(cache_->device_arena_bytes(), arena_bytes);
  }
}

TEST_F(DeviceTierTest, TakesItBesideAnEarlierOneWhereThatIsAllowed) {
  config_.device.overlap_bytes = arena_bytes;
  const auto earlier = claims_.claim("earlier", arena_bytes);
  const auto tier = make();
  ASSERT_TRUE(tier->start().ok());
  EXPECT_TRUE(tier->ready());
}

TEST_F(DeviceTierTest, UnlessToldTakesItWhereMemoryHasRoomForBoth) {
  const auto earlier = claims_.claim("earlier", arena_bytes);
  accelerator_.available = arena_bytes;  // not a byte for anybody else
  const auto tier = make();
  ASSERT_TRUE(tier->start().ok());
  tier->retry();
  EXPECT_FALSE(tier->ready());
  accelerator_.available = 2 * arena_bytes;
  EXPECT_TRUE(becomes_ready(*tier));
}

TEST_F(DeviceTierTest, MemoryThatCannotBeHadIsAnErrorOnlyIfNobodyIsInTheWay) {
  accelerator_.full = true;
  accelerator_.available = 1 * gib;
  EXPECT_EQ(make()->start().code(), StatusCode::no_space);
  const auto earlier = claims_.claim("earlier", arena_bytes);
  const auto tier = make();
  ASSERT_TRUE(tier->start().ok());
  EXPECT_FALSE(tier->ready());
  accelerator_.full = false;
  EXPECT_TRUE(becomes_ready(*tier));
}

}  // namespace
}  // namespace terrace::daemon
