// terrace: what operators ask a running daemon.
#include <CLI/CLI.hpp>
#include <iostream>
#include <optional>
#include <string>

#include "client/cli/fetch_listing.h"
#include "client/cli/listing.h"
#include "client/cli/stats.h"
#include "client/operator.h"
#include "core/default_paths.h"

namespace terrace::cli {
namespace {

constexpr int exit_failure = 1;
constexpr int exit_usage = 2;

// A daemon that is stopped or overloaded: a person waits no longer than this for one answer.
constexpr std::chrono::seconds call_timeout{5};

// What a table shows unless told otherwise; --json shows everything.
constexpr std::size_t default_table_limit = 50;

struct Options {
  std::string socket_path = default_socket_path();
  bool json = false;
  std::optional<std::size_t> limit;
};

Status run_stats(const Options& options) {
  const auto stats =
      client::fetch_stats_json(options.socket_path, client::Deadline::clock::now() + call_timeout);
  if (!stats) return stats.error();
  return options.json ? print_stats_json(*stats, std::cout) : print_stats(*stats, std::cout);
}

Status run_ls(const Options& options) {
  Result<Listing> listing = fetch_listing(options.socket_path, call_timeout);
  if (!listing) return listing.error();
  sort_by_prefix(listing->blocks);
  if (options.json)
    print_listing_json(*listing, options.limit.value_or(0), std::cout);
  else
    print_listing(*listing, options.limit.value_or(default_table_limit), std::cout);
  return {};
}

// One line that says what to do next.
std::string advice(const Status& status, const std::string& socket_path) {
  switch (status.code()) {
    case StatusCode::unavailable:
      return status.message() + "; start a daemon with 'terraced --socket " + socket_path +
             "', or name another with --socket or $TERRACE_SOCKET";
    case StatusCode::deadline_exceeded:
      return "the daemon at " + socket_path + " did not answer within " +
             std::to_string(call_timeout.count()) +
             " s: it is stopped or overloaded; its log may say more";
    default:
      return status.message();
  }
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app("Shows what a running terraced has cached.", "terrace");
  app.set_version_flag("--version", "terrace " TERRACE_VERSION);
  app.require_subcommand(1);
  app.add_option("--socket", options.socket_path,
                 "where the daemon listens: $TERRACE_SOCKET, else the user's default")
      ->capture_default_str();
  app.fallthrough();
  CLI::App* stats = app.add_subcommand("stats", "tiers: capacity, use, hits, misses");
  CLI::App* ls = app.add_subcommand("ls", "blocks, each prefix from its head to its tail");
  for (CLI::App* command : {stats, ls})
    command->add_flag("--json", options.json, "print JSON, for programs");
  ls->add_option("--limit", options.limit, "show at most N blocks, 0 for all (a table shows 50)")
      ->type_name("N");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& answer) {  // --help, --version
    return app.exit(answer);
  } catch (const CLI::ParseError& problem) {
    std::cerr << "terrace: " << problem.what() << " ('terrace --help' lists what there is)\n";
    return exit_usage;
  }

  Status status = stats->parsed() ? run_stats(options) : run_ls(options);
  if (status.ok() && !std::cout.flush())
    status = Status(StatusCode::io_error, "could not write to standard output");
  if (status.ok()) return 0;
  std::cerr << "terrace: " << advice(status, options.socket_path) << "\n";
  return exit_failure;
}

}  // namespace
}  // namespace terrace::cli

int main(int argc, char** argv) { return terrace::cli::run(argc, argv); }
