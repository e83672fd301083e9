// What CI runs of the simulation: 50 seeds of 10,000 operations, everything checked after each.
#include <gtest/gtest.h>

#include "tests/sim/run_options.h"

namespace terrace::sim {
namespace {

constexpr std::uint64_t seeds = 50, seeds_a_slice = 5;

class SimulationSlice : public testing::TestWithParam<std::uint64_t> {};

TEST_P(SimulationSlice, WhatAGetReturnsWasOncePutUnderThatKeyOrItIsAMiss) {
  for (std::uint64_t seed = GetParam(); seed < GetParam() + seeds_a_slice; ++seed) {
    RunOptions options;
    options.seed = seed;
    std::string command;
    const RunResult result = run_and_shrink(options, command);
    ASSERT_EQ(result.failure, "") << "seed " << seed << " (" << result.profile
                                  << ")\nreproduce with: " << command;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, SimulationSlice,
                         testing::Range<std::uint64_t>(1, seeds + 1, seeds_a_slice));

TEST(Simulation, ASeedGivesTheSameRunAgain) {
  RunOptions options;
  options.check_every = 100;
  options.operations = 3000;
  for (options.seed = 1; options.seed <= 8; ++options.seed) {
    const RunResult first = run(options), second = run(options);
    EXPECT_EQ(first.failure, "");
    EXPECT_EQ(first.fingerprint, second.fingerprint) << "seed " << options.seed;
  }
}

TEST(Simulation, EverythingThatItIsForHappens) {
  Tally sum;
  RunOptions options;
  options.check_every = 100;
  options.operations = 3000;
  for (options.seed = 1; options.seed <= 30; ++options.seed) sum.add(run(options).tally);
  for (const std::uint64_t counter :
       {sum.from_device, sum.from_host, sum.from_disk, sum.seals, sum.duplicates, sum.refused_seals,
        sum.partial_matches, sum.restarts, sum.drains, sum.crashes, sum.recovered_blocks,
        sum.corruptions, sum.failures, sum.evictions, sum.declined_loads, sum.scribbles,
        sum.rotten_records})
    EXPECT_GT(counter, 20u) << sum.json();
}

}  // namespace
}  // namespace terrace::sim
