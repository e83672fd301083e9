#include "tests/sim/run_options.h"

#include <sstream>

namespace terrace::sim {

namespace {

struct Counter {
  const char* name;
  std::uint64_t Tally::*value;
};
constexpr Counter counters[] = {
    {"operations", &Tally::operations},
    {"checks", &Tally::checks},
    {"gets", &Tally::gets},
    {"from_device", &Tally::from_device},
    {"from_host", &Tally::from_host},
    {"from_disk", &Tally::from_disk},
    {"from_redis", &Tally::from_redis},
    {"lookups", &Tally::lookups},
    {"late_lookups", &Tally::late_lookups},
    {"cut_loads", &Tally::cut_loads},
    {"shared", &Tally::shared},
    {"seals", &Tally::seals},
    {"duplicates", &Tally::duplicates},
    {"refused_seals", &Tally::refused_seals},
    {"partial_matches", &Tally::partial_matches},
    {"refused_claims", &Tally::refused_claims},
    {"awaited_blocks", &Tally::awaited_blocks},
    {"expired_waits", &Tally::expired_waits},
    {"pins", &Tally::pins},
    {"drops", &Tally::drops},
    {"lost_indices", &Tally::lost_indices},
    {"evicted_prefixes", &Tally::evicted_prefixes},
    {"warms", &Tally::warms},
    {"restarts", &Tally::restarts},
    {"drains", &Tally::drains},
    {"crashes", &Tally::crashes},
    {"recovered_blocks", &Tally::recovered_blocks},
    {"corruptions", &Tally::corruptions},
    {"failures", &Tally::failures},
    {"evictions", &Tally::evictions},
    {"declined_loads", &Tally::declined_loads},
    {"scribbles", &Tally::scribbles},
    {"rotten_records", &Tally::rotten_records},
};

}  // namespace

void Tally::add(const Tally& other) {
  for (const Counter& counter : counters) this->*counter.value += other.*counter.value;
}

std::string Tally::json() const {
  std::ostringstream out;
  for (const Counter& counter : counters)
    out << (&counter == counters ? "" : ",") << "\"" << counter.name
        << "\":" << this->*counter.value;
  return out.str();
}

std::string command_of(const RunOptions& options) {
  std::ostringstream out;
  out << "simulate --seed " << options.seed << " --seeds 1 --operations " << options.operations
      << " --check-every " << options.check_every;
  Faults faults = options.faults;
  std::string named;
  bool all = true;
  for (std::size_t i = 0; i < Faults::names.size(); ++i) {
    all = all && *faults.all()[i];
    if (*faults.all()[i]) named += (named.empty() ? "" : ",") + std::string(Faults::names[i]);
  }
  if (!all) out << " --faults " << (named.empty() ? "none" : named);
  if (options.disk == DiskKind::none) out << " --disk none";
  if (options.disk == DiskKind::fake) out << " --disk fake";
  if (options.disk == DiskKind::store) out << " --disk store";
  std::string without;
  for (std::size_t i = 0; i < action_count; ++i)
    if (options.without[i]) without += (without.empty() ? "" : ",") + std::string(action_names[i]);
  if (!without.empty()) out << " --without " << without;
  return out.str();
}

RunResult run_and_shrink(const RunOptions& options, std::string& command) {
  const RunResult first = run(options);
  if (first.failure.empty()) return first;
  // Another random run may fail in another way: any failure that is shorter is welcome.
  RunOptions least = options;
  RunResult result = first;
  const auto try_this = [&](RunOptions attempt) {
    attempt.operations = result.tally.operations;
    RunResult shorter = run(attempt);
    if (shorter.failure.empty()) return;
    least = attempt;
    least.operations = shorter.tally.operations;
    result = std::move(shorter);
  };
  RunOptions every = least;
  every.check_every = 1;
  // The long way to a failure at a late step costs more than it tells.
  if (first.tally.operations <= 200'000) try_this(every);
  for (std::size_t i = 0; i < action_count && first.tally.operations <= 200'000; ++i) {
    RunOptions attempt = least;
    attempt.without[i] = true;
    try_this(attempt);
  }
  command = command_of(least);
  return result;
}

}  // namespace terrace::sim
