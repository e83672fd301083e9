// simulate: runs the simulation for as long as it is told.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <sstream>

#include "tests/sim/run_options.h"

namespace {

using namespace terrace::sim;

// Indices of the comma-separated `text` in `names`; throws a message for people.
template <std::size_t N>
std::vector<std::size_t> parse_names(const std::string& text,
                                     const std::array<std::string_view, N>& names) {
  std::vector<std::size_t> found;
  std::istringstream in(text);
  for (std::string name; std::getline(in, name, ',');) {
    const auto at = std::find(names.begin(), names.end(), name);
    if (at == names.end()) throw CLI::ValidationError("unknown name '" + name + "'");
    found.push_back(static_cast<std::size_t>(at - names.begin()));
  }
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  RunOptions options;
  std::uint64_t seeds = 50;
  std::string faults = "all", disk = "by-seed", without;
  bool verbose = false;
  CLI::App app(
      "Random operations of many clients on a cache over fake engines that delay, reorder, fail,\n"
      "flip bits, fill up and crash. What a get returns was once put under that key, or it is a "
      "miss.");
  app.add_option("--seed", options.seed, "the first seed")->capture_default_str();
  app.add_option("--seeds", seeds, "how many seeds, one run each")->capture_default_str();
  app.add_option("--operations", options.operations, "of each run")->capture_default_str();
  app.add_option("--check-every", options.check_every, "check everything after so many operations")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--faults", faults,
                 "which may happen: all, none, or some of copies_fail, copies_flip, disk_fails, "
                 "disk_rots, disk_full, scribbles, crashes, index_fails, index_lost, remote_fails, "
                 "remote_forgets, remote_rots")
      ->capture_default_str();
  app.add_option("--disk", disk, "by-seed (none or fake), none, fake or store")
      ->capture_default_str()
      ->check(CLI::IsMember({"by-seed", "none", "fake", "store"}));
  app.add_option("--without", without, "kinds of operations to leave out, with commas");
  app.add_flag("--verbose", verbose, "a line for each run");
  try {
    app.parse(argc, argv);
    if (faults != "all") {
      for (bool* fault : options.faults.all()) *fault = false;
      if (faults != "none")
        for (const std::size_t i : parse_names(faults, Faults::names))
          *options.faults.all()[i] = true;
    }
    for (const std::size_t i : parse_names(without, action_names)) options.without[i] = true;
    options.disk = disk == "none"    ? DiskKind::none
                   : disk == "fake"  ? DiskKind::fake
                   : disk == "store" ? DiskKind::store
                                     : DiskKind::by_seed;
  } catch (const CLI::ParseError& problem) {
    return app.exit(problem);
  }

  Tally sum;
  const auto started = std::chrono::steady_clock::now();
  const std::uint64_t first_seed = options.seed;
  for (; options.seed < first_seed + seeds; ++options.seed) {
    std::string command;
    const RunResult result = run_and_shrink(options, command);
    if (verbose || !result.failure.empty())
      std::printf("seed %llu: %s; fingerprint %016llx\n",
                  static_cast<unsigned long long>(options.seed), result.profile.c_str(),
                  static_cast<unsigned long long>(result.fingerprint));
    if (!result.failure.empty()) {
      std::printf("FAILED: %s\nreproduce with: %s\n", result.failure.c_str(), command.c_str());
      return 1;
    }
    sum.add(result.tally);
    std::fflush(stdout);
  }
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  std::printf(
      "{\"simulate\":{\"first_seed\":%llu,\"seeds\":%llu,\"check_every\":%llu,%s,"
      "\"seconds\":%.1f,\"operations_per_second\":%.0f}}\n",
      static_cast<unsigned long long>(first_seed), static_cast<unsigned long long>(seeds),
      static_cast<unsigned long long>(options.check_every), sum.json().c_str(), seconds,
      static_cast<double>(sum.operations) / seconds);
  return 0;
}
