// Verbs about the daemon as a whole.
#include <iostream>

#include "client/cli/program.h"
#include "client/cli/stats.h"

namespace terrace::cli {
namespace {

Status run_stats(const Program& program, const JsonOption& options) {
  const auto stats = client::fetch_stats_json(program.socket_path, call_deadline());
  if (!stats) return stats.error();
  return options.json ? print_stats_json(*stats, std::cout) : print_stats(*stats, std::cout);
}

}  // namespace

void add_service_verbs(Program& program) {
  auto of_stats = std::make_shared<JsonOption>();
  CLI::App* const stats = program.add_verb(
      program.app, "stats", "tiers: capacity, use, hits, misses", of_stats, run_stats);
  add_json_option(*stats, of_stats->json);
}

}  // namespace terrace::cli
