#include "bench/replay.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <ostream>

#include "bench/environment.h"
#include "bench/replay/belady.h"
#include "bench/replay/synthetic_trace.h"
#include "bench/replay/tree_cache.h"

namespace terrace::bench {

namespace {

struct Figure {
  double hit_ratio = 0;
  double ns_per_block = 0;  // of the processor
};

double thread_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

std::uint64_t replay_hits(const Trace& trace, storage::EvictionOrder order, std::size_t capacity) {
  TreeCache cache(order, capacity, trace.distinct);
  std::uint64_t hits = 0;
  for (const TraceRequest& request : trace.requests) hits += cache.request(request);
  return hits;
}

Figure measure(const Trace& trace, const std::string& policy, double fraction) {
  const auto capacity = static_cast<std::size_t>(std::lround(fraction * trace.distinct));
  const double begin_ns = thread_ns();
  const std::uint64_t hits =
      policy == "belady" ? belady_hits(trace, capacity)
                         : replay_hits(trace,
                                       policy == "lru" ? storage::EvictionOrder::lru
                                                       : storage::EvictionOrder::reuse_index,
                                       capacity);
  const auto blocks = static_cast<double>(std::max<std::uint64_t>(trace.blocks, 1));
  return {static_cast<double>(hits) / blocks, (thread_ns() - begin_ns) / blocks};
}

// The table, and the object of the last line.
nlohmann::ordered_json replay(const std::string& name, const Trace& trace,
                              const ReplayOptions& options, std::ostream& out) {
  out << name << ": " << trace.requests.size() << " requests, " << trace.blocks << " blocks, "
      << trace.distinct << " distinct\ncapacity";
  for (const std::string& policy : options.policies) out << std::setw(24) << policy;
  out << "\n" << std::fixed;
  auto results = nlohmann::ordered_json::array();
  for (const double capacity : options.capacities) {
    out << std::setprecision(1) << std::setw(7) << 100 * capacity << "%";
    for (const std::string& policy : options.policies) {
      const Figure figure = measure(trace, policy, capacity);
      out << std::setprecision(2) << std::setw(9) << 100 * figure.hit_ratio << " %"
          << std::setprecision(0) << std::setw(7) << figure.ns_per_block << " ns  " << std::flush;
      results.push_back({{"capacity", capacity},
                         {"policy", policy},
                         {"hit_ratio", figure.hit_ratio},
                         {"ns_per_block", figure.ns_per_block}});
    }
    out << "\n";
  }
  return {{"bench", "replay"},
          {"trace", name},
          {"full_blocks_only", options.full_blocks_only},
          {"requests", trace.requests.size()},
          {"blocks", trace.blocks},
          {"distinct", trace.distinct},
          {"results", std::move(results)},
          {"debug_build", is_debug_build()}};
}

}  // namespace

int run_replay(const ReplayOptions& options, std::ostream& out, std::ostream& err) {
  print_environment(out);
  if (!options.trace.empty()) {
    const auto trace = read_trace(options.trace, options.full_blocks_only);
    if (!trace) {
      err << "terrace-bench: " << trace.error().message() << std::endl;
      return 1;
    }
    out << replay(options.trace, *trace, options, out).dump() << std::endl;
    return 0;
  }
  bool any = false;
  for (const SyntheticTrace& synthetic : synthetic_traces()) {
    if (options.synthetic != "all" && options.synthetic != synthetic.name) continue;
    any = true;
    const Trace trace = synthetic.make(options.seed, options.requests);
    const auto line = replay(std::string(synthetic.name), trace, options, out);
    out << line.dump() << std::endl;
  }
  if (any) return 0;
  err << "terrace-bench: give --trace FILE, or --synthetic all or one of:";
  for (const SyntheticTrace& synthetic : synthetic_traces())
    err << "\n  " << synthetic.name << ": " << synthetic.what;
  err << std::endl;
  return 2;
}

}  // namespace terrace::bench
