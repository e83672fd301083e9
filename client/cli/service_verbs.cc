// Verbs about the daemon as a whole.
#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "client/cli/confirm.h"
#include "client/cli/describe.h"
#include "client/cli/program.h"
#include "client/cli/stats.h"
#include "client/cli/top.h"

namespace terrace::cli {
namespace {

Status run_stats(const Program& program, const JsonOption& options) {
  const auto stats =
      client::fetch_stats_json(program.socket_path, call_deadline(), program.identity);
  if (!stats) return stats.error();
  return options.json ? print_stats_json(*stats, std::cout) : print_stats(*stats, std::cout);
}

struct TopOptions {
  double interval_s = 1;
  std::size_t looks = 0;  // 0: until interrupted
  bool json = false;
};

Status run_top(const Program& program, const TopOptions& options) {
  using Clock = std::chrono::steady_clock;
  const bool clear = !options.json && ::isatty(STDOUT_FILENO) == 1;
  const auto print = options.json ? print_top_json : print_top;
  auto before = client::fetch_stats_json(program.socket_path, call_deadline(), program.identity);
  if (!before) return before.error();
  auto at = Clock::now();
  for (std::size_t look = 0; options.looks == 0 || look < options.looks; ++look) {
    std::this_thread::sleep_for(std::chrono::duration<double>(options.interval_s));
    auto now = client::fetch_stats_json(program.socket_path, call_deadline(), program.identity);
    if (!now) return now.error();
    const auto then = std::exchange(at, Clock::now());
    // Home, and everything below gone: without the flicker of an empty screen.
    if (clear) std::cout << "\x1b[H\x1b[J";
    if (Status status =
            print(*before, *now, std::chrono::duration<double>(at - then).count(), std::cout);
        !status.ok())
      return status;
    if (!std::cout.flush())
      return Status(StatusCode::io_error, "could not write to standard output");
    before = std::move(now);
  }
  return {};
}

Status run_sessions(const Program& program, const JsonOption& options) {
  const auto daemon = program.connect();
  if (!daemon) return daemon.error();
  const auto sessions = (*daemon)->sessions_json(call_deadline());
  if (!sessions) return sessions.error();
  if (!options.json) return print_sessions(*sessions, std::cout);
  std::cout << *sessions << "\n";
  return {};
}

struct KickOptions {
  std::uint64_t session = 0;
  bool yes = false, json = false;
};

Status run_kick(const Program& program, const KickOptions& options) {
  const auto daemon = program.connect();
  if (!daemon) return daemon.error();
  const auto sessions = (*daemon)->sessions_json(call_deadline());
  if (!sessions) return sessions.error();
  const auto who = session_text(*sessions, options.session);
  if (!who) return who.error();
  if (Status status = confirm("Cut the connection of " + *who + "?", options.yes); !status.ok())
    return status;
  if (Status status = (*daemon)->kick(options.session, call_deadline()); !status.ok())
    return status;
  if (options.json)
    std::cout << nlohmann::json{{"session", options.session}, {"cut", true}} << "\n";
  else
    std::cout << "cut " << *who << "\n";
  return {};
}

}  // namespace

void add_service_verbs(Program& program) {
  auto of_stats = std::make_shared<JsonOption>();
  CLI::App* const stats = program.add_verb(
      program.app, "stats", "tiers: capacity, use, hits, misses", of_stats, run_stats);
  add_json_option(*stats, of_stats->json);

  auto of_top = std::make_shared<TopOptions>();
  CLI::App* const top = program.add_verb(program.app, "top",
                                         "the same, live: what happens a second", of_top, run_top);
  top->add_option("--interval", of_top->interval_s, "seconds from one look to the next")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  top->add_option("--looks", of_top->looks, "end after so many, 0 for never")
      ->capture_default_str();
  top->add_flag("--json", of_top->json, "print a line of JSON a look, for programs");

  auto of_sessions = std::make_shared<JsonOption>();
  CLI::App* const sessions = program.add_verb(
      program.app, "sessions", "the workers, and what they hold", of_sessions, run_sessions);
  add_json_option(*sessions, of_sessions->json);
  auto of_kick = std::make_shared<KickOptions>();
  CLI::App* const kick =
      program.add_verb(program.app, "kick", "cut a session's connection", of_kick, run_kick);
  kick->add_option("session", of_kick->session, "its number, as 'sessions' shows it")->required();
  kick->add_flag("--yes", of_kick->yes, "do not ask");
  add_json_option(*kick, of_kick->json);
}

}  // namespace terrace::cli
