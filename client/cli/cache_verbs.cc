// Verbs about blocks and spaces.
#include <iostream>
#include <optional>

#include "client/cli/fetch_listing.h"
#include "client/cli/listing.h"
#include "client/cli/pins.h"
#include "client/cli/program.h"

namespace terrace::cli {
namespace {

// What a table shows unless told otherwise; --json shows everything.
constexpr std::size_t default_table_limit = 50;
// Dropping takes its time where there are many blocks on disk.
constexpr std::chrono::seconds drop_timeout{60};

struct LsOptions {
  bool json = false;
  std::optional<std::size_t> limit;
};

Status run_ls(const Program& program, const LsOptions& options) {
  Result<Listing> listing = fetch_listing(program.socket_path, call_timeout);
  if (!listing) return listing.error();
  sort_by_prefix(listing->blocks);
  if (options.json)
    print_listing_json(*listing, options.limit.value_or(0), std::cout);
  else
    print_listing(*listing, options.limit.value_or(default_table_limit), std::cout);
  return {};
}

struct DropOptions {
  std::string digest;
};

Status run_drop_space(const Program& program, const DropOptions& options) {
  const auto digest = parse_key(options.digest);
  if (!digest) return digest.error();
  const auto daemon = program.connect();
  if (!daemon) return daemon.error();
  const auto blocks = (*daemon)->drop_space(*digest, client::Deadline::clock::now() + drop_timeout);
  if (!blocks && blocks.error().code() == StatusCode::deadline_exceeded)
    return Status(StatusCode::internal,
                  "the daemon is not done yet, and goes on dropping the space");
  if (!blocks) return blocks.error();
  std::cout << "dropped " << *blocks << " blocks\n";
  return {};
}

}  // namespace

void add_cache_verbs(Program& program) {
  auto of_ls = std::make_shared<LsOptions>();
  CLI::App* const ls = program.add_verb(
      program.app, "ls", "blocks, each prefix from its head to its tail", of_ls, run_ls);
  add_json_option(*ls, of_ls->json);
  ls->add_option("--limit", of_ls->limit, "show at most N blocks, 0 for all (a table shows 50)")
      ->type_name("N");

  auto of_drop = std::make_shared<DropOptions>();
  CLI::App* const drop = program.add_verb(program.app, "drop-space", "drop every block of a space",
                                          of_drop, run_drop_space);
  drop->add_option("digest", of_drop->digest, "of the space, as 'ls --json' shows it")->required();
}

}  // namespace terrace::cli
