#include "storage/disk/ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "storage/disk/aligned_buffer.h"
#include "tests/storage/disk/store_harness.h"

namespace terrace::storage {
namespace {

class RingTest : public ::testing::TestWithParam<RingKind> {
 protected:
  void SetUp() override {
    auto ring = make_ring(GetParam(), 8);
    if (!ring) GTEST_SKIP() << ring.error().to_string();
    ring_ = std::move(*ring);
  }
  // Waits for `count` completions, in the order of their tags.
  std::vector<RingCompletion> wait(std::size_t count) {
    std::vector<RingCompletion> out;
    while (out.size() < count) ring_->wait(out, std::nullopt);
    std::sort(out.begin(), out.end(), [](auto left, auto right) { return left.tag < right.tag; });
    return out;
  }

  TempDirectory directory_;
  std::unique_ptr<Ring> ring_;
};

TEST_P(RingTest, WritesSyncsAndReadsBackInPieces) {
  const std::string path = directory_.path() + "/file";
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  AlignedBuffer out, in;
  out.ensure(8 * 4096);
  in.ensure(8 * 4096);
  std::vector<std::array<iovec, 2>> pieces(8);
  for (std::size_t i = 0; i < 4; ++i) {
    std::memset(out.data() + i * 8192, static_cast<int>('a' + i), 8192);
    pieces[i] = {iovec{out.data() + i * 8192, 4096}, iovec{out.data() + i * 8192 + 4096, 4096}};
    ring_->submit({RingOperation::Kind::write, fd.get(), i * 8192, pieces[i], 10 + i});
  }
  for (const RingCompletion& one : wait(4)) EXPECT_EQ(one.result, 8192);
  ring_->submit({RingOperation::Kind::sync, fd.get(), 0, {}, 99});
  EXPECT_EQ(wait(1)[0].result, 0);
  for (std::size_t i = 0; i < 4; ++i) {
    pieces[i] = {iovec{in.data() + i * 8192, 4096}, iovec{in.data() + i * 8192 + 4096, 4096}};
    ring_->submit({RingOperation::Kind::read, fd.get(), i * 8192, pieces[i], 20 + i});
  }
  const auto read = wait(4);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(read[i].tag, 20 + i);
    EXPECT_EQ(read[i].result, 8192);
  }
  EXPECT_EQ(std::memcmp(in.data(), out.data(), 8 * 4096), 0);
}

TEST_P(RingTest, TellsOfErrorsAndOfTheEndOfTheFile) {
  AlignedBuffer in;
  in.ensure(4096);
  const iovec one{in.data(), 4096};
  ring_->submit({RingOperation::Kind::read, -1, 0, std::span(&one, 1), 1});
  EXPECT_EQ(wait(1)[0].result, -EBADF);
  const std::string path = directory_.path() + "/file";
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::ftruncate(fd.get(), 100), 0);
  ring_->submit({RingOperation::Kind::read, fd.get(), 0, std::span(&one, 1), 2});
  EXPECT_EQ(wait(1)[0].result, 100);
}

TEST_P(RingTest, WakeEndsAWaitAlsoWhenItComesFirst) {
  std::vector<RingCompletion> out;
  ring_->wake();
  ring_->wait(out, std::nullopt);
  std::thread other([this] { ring_->wake(); });
  ring_->wait(out, std::nullopt);
  other.join();
  EXPECT_TRUE(out.empty());
}

TEST_P(RingTest, AWaitEndsAfterItsTime) {
  std::vector<RingCompletion> out;
  ring_->wait(out, 1'000'000);
  ring_->wait(out, 0);
  EXPECT_TRUE(out.empty());
}

INSTANTIATE_TEST_SUITE_P(Kinds, RingTest, ::testing::Values(RingKind::io_uring, RingKind::threads),
                         [](const auto& variant) {
                           return std::string(variant.param == RingKind::threads ? "threads"
                                                                                 : "io_uring");
                         });

TEST(Ring, AutomaticAlwaysGivesOne) { EXPECT_TRUE(make_ring(RingKind::automatic, 4)); }

}  // namespace
}  // namespace terrace::storage
