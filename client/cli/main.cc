// terrace: what operators ask a running daemon.
#include <CLI/CLI.hpp>
#include <iostream>
#include <optional>
#include <string>

#include "client/cli/config.h"
#include "client/cli/fetch_listing.h"
#include "client/cli/listing.h"
#include "client/cli/pins.h"
#include "client/cli/stats.h"
#include "client/operator.h"
#include "core/clock.h"
#include "core/default_paths.h"

namespace terrace::cli {
namespace {

constexpr int exit_failure = 1;
constexpr int exit_usage = 2;

// A daemon that is stopped or overloaded: a person waits no longer than this for one answer.
constexpr std::chrono::seconds call_timeout{5};

// Dropping takes its time where there are many blocks on disk.
constexpr std::chrono::seconds drop_timeout{60};

// Ten years; longer is for ever.
constexpr std::uint64_t max_ttl_s = 3650ull * 86400;

// What a table shows unless told otherwise; --json shows everything.
constexpr std::size_t default_table_limit = 50;

struct Options {
  std::string socket_path = default_socket_path();
  bool json = false;
  std::optional<std::size_t> limit;
  std::string key;
  std::optional<Tier> tier;
  std::uint64_t ttl_s = 0;
  ConfigSource config;
};

client::Deadline call_deadline() { return client::Deadline::clock::now() + call_timeout; }

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

Status run_pin(const Options& options) {
  const auto key = parse_key(options.key);
  if (!key) return key.error();
  const auto daemon = client::OperatorClient::connect(options.socket_path);
  if (!daemon) return daemon.error();
  const auto pin =
      (*daemon)->pin(*key, options.tier, std::chrono::seconds(options.ttl_s), call_deadline());
  if (!pin) return pin.error();
  print_pins({*pin}, SystemClock().unix_ms(), std::cout);
  return {};
}

Status run_unpin(const Options& options) {
  const auto key = parse_key(options.key);
  if (!key) return key.error();
  const auto daemon = client::OperatorClient::connect(options.socket_path);
  if (!daemon) return daemon.error();
  return (*daemon)->unpin(*key, call_deadline());
}

Status run_pins(const Options& options) {
  const auto daemon = client::OperatorClient::connect(options.socket_path);
  if (!daemon) return daemon.error();
  const auto pins = (*daemon)->list_pins(call_deadline());
  if (!pins) return pins.error();
  if (options.json)
    print_pins_json(*pins, std::cout);
  else
    print_pins(*pins, SystemClock().unix_ms(), std::cout);
  return {};
}

Status run_drop_space(const Options& options) {
  const auto digest = parse_key(options.key);
  if (!digest) return digest.error();
  const auto daemon = client::OperatorClient::connect(options.socket_path);
  if (!daemon) return daemon.error();
  const auto blocks = (*daemon)->drop_space(*digest, client::Deadline::clock::now() + drop_timeout);
  if (!blocks && blocks.error().code() == StatusCode::deadline_exceeded)
    return Status(StatusCode::internal,
                  "the daemon is not done yet, and goes on dropping the space");
  if (!blocks) return blocks.error();
  std::cout << "dropped " << *blocks << " blocks\n";
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
  CLI::App app("Shows what a running terraced has cached, and keeps it there.", "terrace");
  app.set_version_flag("--version", "terrace " TERRACE_VERSION);
  app.require_subcommand(1);
  app.add_option("--socket", options.socket_path,
                 "where the daemon listens: $TERRACE_SOCKET, else the user's default")
      ->capture_default_str();
  app.fallthrough();
  CLI::App* stats = app.add_subcommand("stats", "tiers: capacity, use, hits, misses");
  CLI::App* ls = app.add_subcommand("ls", "blocks, each prefix from its head to its tail");
  CLI::App* pin = app.add_subcommand("pin", "keep a prefix in the cache");
  CLI::App* unpin = app.add_subcommand("unpin", "end a pin");
  CLI::App* pins = app.add_subcommand("pins", "what is pinned");
  CLI::App* drop_space = app.add_subcommand("drop-space", "drop every block of a space");
  drop_space->add_option("digest", options.key, "of the space, as 'ls --json' shows it")
      ->required();
  for (CLI::App* command : {pin, unpin})
    command->add_option("key", options.key, "of the prefix's last block, as 'ls --json' shows it")
        ->required();
  pin->add_option("--tier", options.tier, "device or host: stay there once there (else anywhere)")
      ->transform(CLI::CheckedTransformer(
          std::map<std::string, Tier>{{"device", Tier::device}, {"host", Tier::host}}));
  pin->add_option("--ttl", options.ttl_s, "how long, such as 90m or 7d (else until unpin)")
      ->transform(CLI::AsNumberWithUnit(
          std::map<std::string, std::uint64_t>{{"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}}))
      ->check(CLI::Range(std::uint64_t{1}, max_ttl_s))
      ->type_name("TIME");
  CLI::App* config = app.add_subcommand("config", "terraced's configuration, without a daemon");
  config->require_subcommand(1);
  CLI::App* config_check = config->add_subcommand("check", "say what is wrong with it");
  CLI::App* config_show = config->add_subcommand("show", "what every option is in the end");
  for (CLI::App* command : {config_check, config_show}) {
    command->add_option("--config", options.config.file, "the file, as for terraced");
    command->add_option("--set", options.config.settings, "one option, KEY=VALUE, as for terraced")
        ->allow_extra_args(false);
  }
  for (CLI::App* command : {stats, ls, pins, config_show})
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

  Status status = stats->parsed()          ? run_stats(options)
                  : config_check->parsed() ? check_config(options.config, std::cout)
                  : config_show->parsed()  ? show_config(options.config, options.json, std::cout)
                  : ls->parsed()           ? run_ls(options)
                  : pin->parsed()          ? run_pin(options)
                  : unpin->parsed()        ? run_unpin(options)
                  : drop_space->parsed()   ? run_drop_space(options)
                                           : run_pins(options);
  if (status.ok() && !std::cout.flush())
    status = Status(StatusCode::io_error, "could not write to standard output");
  if (status.ok()) return 0;
  std::cerr << "terrace: " << advice(status, options.socket_path) << "\n";
  return exit_failure;
}

}  // namespace
}  // namespace terrace::cli

int main(int argc, char** argv) { return terrace::cli::run(argc, argv); }
