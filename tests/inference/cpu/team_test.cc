#include "inference/cpu/team.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <cstring>
#include <set>
#include <thread>

#include "inference/cpu/isa.h"
#include "inference/cpu/kernel_table.h"
#include "inference/cpu/probe.h"

namespace terrace::inference {
namespace {

TEST(TeamTest, RunsOnceOnEveryThread) {
  for (int threads = 1; threads <= 5; ++threads) {
    Team team(threads);
    ASSERT_EQ(team.threads(), threads);
    std::vector<int> calls(static_cast<std::size_t>(threads));
    std::vector<std::thread::id> ids(calls.size());
    for (int run = 0; run < 50; ++run) {
      team.run([&](TeamMember member) {
        EXPECT_EQ(member.threads(), threads);
        ++calls[static_cast<std::size_t>(member.thread())];
        ids[static_cast<std::size_t>(member.thread())] = std::this_thread::get_id();
      });
    }
    EXPECT_THAT(calls, testing::Each(50));
    EXPECT_EQ(ids[0], std::this_thread::get_id());
    EXPECT_EQ(std::set<std::thread::id>(ids.begin(), ids.end()).size(), ids.size());
  }
}

TEST(TeamTest, OneThreadACpuByDefault) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  EXPECT_EQ(Team().threads(), CPU_COUNT(&set));
}

// Each thread writes plain memory that all others read after the barrier, again and again: a
// barrier that lets one through early, or does not publish, shows in the sums (and to TSan).
TEST(TeamTest, BarrierPublishesWhatWasWritten) {
  constexpr int rounds = 2000;
  for (int threads = 1; threads <= 4; ++threads) {
    Team team(threads);
    std::vector<int> cells(static_cast<std::size_t>(threads));
    std::vector<int> wrong(cells.size());
    team.run([&](TeamMember member) {
      const auto self = static_cast<std::size_t>(member.thread());
      for (int round = 1; round <= rounds; ++round) {
        cells[self] = round;
        member.barrier();
        for (const int cell : cells) wrong[self] += cell != round;
        member.barrier();
      }
    });
    EXPECT_THAT(wrong, testing::Each(0));
  }
}

TEST(TeamTest, ScratchIsPrivateAndKeepsItsPlace) {
  Team team(3);
  std::vector<std::byte*> first(3), again(3);
  team.run([&](TeamMember member) {
    const auto self = static_cast<std::size_t>(member.thread());
    first[self] = member.scratch(1000);
    std::memset(first[self], member.thread(), 1000);
    member.barrier();
    again[self] = member.scratch(500);
    EXPECT_EQ(std::to_integer<int>(again[self][499]), member.thread());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first[self]) % 64, 0u);
  });
  EXPECT_EQ(first, again);
  EXPECT_EQ(std::set<std::byte*>(first.begin(), first.end()).size(), 3u);
}

TEST(TeamTest, SplitCoversEverythingOnce) {
  for (const std::size_t total : {0u, 1u, 5u, 64u, 100u}) {
    for (const std::size_t unit : {1u, 16u}) {
      Team team(3);
      std::vector<Range> ranges(3);
      team.run([&](TeamMember member) {
        ranges[static_cast<std::size_t>(member.thread())] = split(total, member, unit);
      });
      std::size_t at = 0;
      for (const Range& range : ranges) {
        EXPECT_EQ(range.begin, at);
        EXPECT_TRUE(range.begin == total || range.begin % unit == 0);
        at = range.end;
      }
      EXPECT_EQ(at, total);
    }
  }
}

TEST(IsaTest, TheBestIsSupportedAndHasKernels) {
  EXPECT_TRUE(supported(Isa::portable));
  EXPECT_TRUE(supported(best_isa()));
  EXPECT_EQ(kernels(Isa::automatic).isa, best_isa());
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512, Isa::avx512_bf16}) {
    EXPECT_EQ(kernels(isa).isa, isa) << to_string(isa);
  }
}

TEST(IsaTest, NumericsNameTheFamily) {
  EXPECT_STREQ(kernels(Isa::portable).numerics(Compute::bf16), "mul-add");
  EXPECT_STREQ(kernels(Isa::avx2).numerics(Compute::bf16), "fma");
  EXPECT_STREQ(kernels(Isa::avx512).numerics(Compute::bf16), "fma");
  EXPECT_STREQ(kernels(Isa::avx512_bf16).numerics(Compute::bf16), "dpbf16");
  EXPECT_STREQ(kernels(Isa::avx512_bf16).numerics(Compute::f32), "fma");
}

TEST(ProbeTest, MeasuresSomething) {
  Team team(2);
  const KernelTable& table = kernels(Isa::automatic);
  EXPECT_GT(peak_multiply_adds_per_s(team, table, Compute::bf16, 0.01), 1e6);
  EXPECT_GT(read_bandwidth_bytes_per_s(team, table, 1 << 20, 0.01), 1e6);
}

}  // namespace
}  // namespace terrace::inference
