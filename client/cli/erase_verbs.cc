// Verbs after which blocks are gone.
#include <iostream>
#include <nlohmann/json.hpp>

#include "client/cli/confirm.h"
#include "client/cli/program.h"
#include "client/cli/resolve.h"
#include "client/cli/text.h"

namespace terrace::cli {
namespace {

// Dropping takes its time where there are many blocks on disk.
constexpr std::chrono::seconds drop_timeout{60};

// What takes its time where there are many blocks on disk.
Status report_gone(const Result<std::uint64_t>& blocks, bool json) {
  if (!blocks && blocks.error().code() == StatusCode::deadline_exceeded)
    return Status(StatusCode::internal, "the daemon is not done yet, and goes on");
  if (!blocks) return blocks.error();
  if (json)
    std::cout << nlohmann::json{{"dropped_blocks", *blocks}} << "\n";
  else
    std::cout << "dropped " << counted(*blocks, "block") << "\n";
  return {};
}

struct EraseOptions {
  std::string what;
  bool yes = false, json = false;
};

Status run_evict(const Program& program, const EraseOptions& options) {
  const auto daemon = program.connect();
  if (!daemon) return daemon.error();
  const auto key = resolve_known_block(**daemon, options.what);
  if (!key) return key.error();
  if (Status status = confirm(
          "Evict block " + key->hex() + " and all that follow it from every tier, Redis included?",
          options.yes);
      !status.ok())
    return status;
  return report_gone((*daemon)->evict(*key, client::Deadline::clock::now() + drop_timeout),
                     options.json);
}

Status run_drop_space(const Program& program, const EraseOptions& options) {
  const auto daemon = program.connect();
  if (!daemon) return daemon.error();
  const auto space = resolve_space(**daemon, options.what);
  if (!space) return space.error();
  const BlockKey digest = space->digest();
  if (Status status = confirm("Drop every block of space " + digest.hex() + " (" +
                                  printable(space->label) + ") from every tier, and its pins?",
                              options.yes);
      !status.ok())
    return status;
  return report_gone((*daemon)->drop_space(digest, client::Deadline::clock::now() + drop_timeout),
                     options.json);
}

Status run_flush(const Program& program, const EraseOptions& options) {
  const auto daemon = program.connect();
  if (!daemon) return daemon.error();
  if (Status status =
          confirm("Drop every block of every space from every tier, Redis included, and all pins?",
                  options.yes);
      !status.ok())
    return status;
  const auto spaces = (*daemon)->list_spaces(call_deadline());
  if (!spaces) return spaces.error();
  std::uint64_t sum = 0;
  for (const SpaceDescriptor& space : *spaces) {
    const auto blocks =
        (*daemon)->drop_space(space.digest(), client::Deadline::clock::now() + drop_timeout);
    if (!blocks) return report_gone(blocks, options.json);
    sum += *blocks;
  }
  return report_gone(sum, options.json);
}

}  // namespace

void add_erase_verbs(Program& program) {
  const auto add = [&](const char* name, const char* about, const char* argument,
                       const char* about_argument, auto run) {
    auto options = std::make_shared<EraseOptions>();
    CLI::App* const verb = program.add_verb(program.app, name, about, options, run);
    if (argument) verb->add_option(argument, options->what, about_argument)->required();
    verb->add_flag("--yes", options->yes, "do not ask");
    add_json_option(*verb, options->json);
  };
  add("evict", "take a block and all that follow it out of every tier", "key",
      "of the block, or its first 6 digits or more", run_evict);
  add("drop-space", "drop every block of a space", "space", "its label or digest", run_drop_space);
  add("flush", "drop every block there is", nullptr, nullptr, run_flush);
}

}  // namespace terrace::cli
