// What CI runs of the simulation: 50 seeds of 10,000 operations over a fake disk and 40 of 2,000
// over the real store, everything checked after each.
#include <gtest/gtest.h>

#include "tests/sim/run_options.h"

namespace terrace::sim {
namespace {

constexpr std::uint64_t seeds = 50, store_seeds = 40, seeds_a_slice = 5;
constexpr std::uint64_t store_operations = 2'000;

void run_slice(RunOptions options) {
  const std::uint64_t first = options.seed;
  for (; options.seed < first + seeds_a_slice; ++options.seed) {
    std::string command;
    const RunResult result = run_and_shrink(options, command);
    ASSERT_EQ(result.failure, "") << "seed " << options.seed << " (" << result.profile
                                  << ")\nreproduce with: " << command;
  }
}

class SimulationSlice : public testing::TestWithParam<std::uint64_t> {};
class StoreSlice : public testing::TestWithParam<std::uint64_t> {};

TEST_P(SimulationSlice, WhatAGetReturnsWasOncePutUnderThatKeyOrItIsAMiss) {
  RunOptions options;
  options.seed = GetParam();
  run_slice(options);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SimulationSlice,
                         testing::Range<std::uint64_t>(1, seeds + 1, seeds_a_slice));

TEST_P(StoreSlice, WhatWasAcknowledgedIsThereAfterACrashAndNothingElseIsTakenForIt) {
  RunOptions options;
  options.seed = GetParam();
  options.operations = store_operations;
  options.disk = DiskKind::store;
  run_slice(options);
}

INSTANTIATE_TEST_SUITE_P(Seeds, StoreSlice,
                         testing::Range<std::uint64_t>(1, store_seeds + 1, seeds_a_slice));

TEST(Simulation, ASeedGivesTheSameRunAgain) {
  RunOptions options;
  options.check_every = 100;
  options.operations = 3000;
  for (const DiskKind disk : {DiskKind::by_seed, DiskKind::store}) {
    options.disk = disk;
    for (options.seed = 1; options.seed <= 8; ++options.seed) {
      const RunResult first = run(options), second = run(options);
      EXPECT_EQ(first.failure, "");
      EXPECT_EQ(first.fingerprint, second.fingerprint) << "seed " << options.seed;
    }
  }
}

TEST(Simulation, EverythingThatItIsForHappens) {
  Tally sum;
  RunOptions options;
  options.check_every = 100;
  options.operations = 3000;
  for (options.seed = 1; options.seed <= 30; ++options.seed) sum.add(run(options).tally);
  options.disk = DiskKind::store;
  for (; options.seed <= 60; ++options.seed) sum.add(run(options).tally);
  for (const std::uint64_t counter : {sum.from_device,    sum.from_host,       sum.from_disk,
                                      sum.from_redis,     sum.late_lookups,    sum.cut_loads,
                                      sum.shared,         sum.seals,           sum.duplicates,
                                      sum.refused_seals,  sum.partial_matches, sum.pins,
                                      sum.warms,          sum.drops,           sum.restarts,
                                      sum.drains,         sum.crashes,         sum.recovered_blocks,
                                      sum.corruptions,    sum.failures,        sum.evictions,
                                      sum.declined_loads, sum.scribbles,       sum.rotten_records})
    EXPECT_GT(counter, 10u) << sum.json();
}

}  // namespace
}  // namespace terrace::sim
