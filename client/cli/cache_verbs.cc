// Verbs about blocks and spaces.
#include <unistd.h>

#include <iostream>
#include <optional>

#include "client/cli/confirm.h"
#include "client/cli/describe.h"
#include "client/cli/fetch_listing.h"
#include "client/cli/listing.h"
#include "client/cli/program.h"
#include "client/cli/prompt_tokens.h"
#include "client/cli/resolve.h"
#include "client/cli/tree.h"
#include "client/cli/warm.h"
#include "core/clock.h"

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
  const auto daemon = program.connect();
  if (!daemon) return daemon.error();
  Result<Listing> listing = fetch_listing(**daemon, call_timeout);
  if (!listing) return listing.error();
  sort_by_prefix(listing->blocks);
  if (options.json)
    print_listing_json(*listing, options.limit.value_or(0), std::cout);
  else
    print_listing(*listing, options.limit.value_or(default_table_limit), std::cout);
  return {};
}

struct TreeOptions {
  bool json = false;
  std::optional<std::size_t> limit;
  std::string model_file;
};

Status run_tree(const Program& program, const TreeOptions& options) {
  TextOf text_of;
  if (!options.model_file.empty()) {
    auto reader = load_text_reader(options.model_file);
    if (!reader) return reader.error();
    text_of = std::move(*reader);
  }
  const auto daemon = program.connect();
  if (!daemon) return daemon.error();
  const Result<Listing> listing = fetch_listing(**daemon, call_timeout);
  if (!listing) return listing.error();
  if (options.json)
    print_tree_json(*listing, text_of, std::cout);
  else
    print_tree(*listing, options.limit.value_or(default_table_limit), SystemClock().unix_ms(),
               text_of, std::cout);
  return {};
}

struct InspectOptions {
  std::string key;
  bool json = false;
};

Status run_inspect(const Program& program, const InspectOptions& options) {
  const auto daemon = program.connect();
  if (!daemon) return daemon.error();
  const auto key = resolve_block(**daemon, options.key);
  if (!key) return key.error();
  const auto block = (*daemon)->inspect_json(*key, call_deadline());
  if (!block) return block.error();
  if (block->empty()) return Status(StatusCode::not_found, "there is no block " + key->hex());
  if (!options.json) return print_inspection(*block, std::cout);
  std::cout << *block << "\n";
  return {};
}

struct WhyOptions {
  PromptSource prompt;
  std::string space;
  bool json = false;
};

Status run_why(const Program& program, const WhyOptions& options) {
  const auto tokens = read_prompt(options.prompt);
  if (!tokens) return tokens.error();
  const auto daemon = program.connect();
  if (!daemon) return daemon.error();
  const auto space = resolve_space(**daemon, options.space);
  if (!space) return space.error();
  const auto why = (*daemon)->explain_json(space->digest(), *tokens, call_deadline());
  if (!why) return why.error();
  if (!options.json) return print_explanation(*why, std::cout);
  std::cout << *why << "\n";
  return {};
}

struct WarmOptions {
  bool all = false, pinned = false, dry_run = false, json = false;
  std::optional<std::size_t> hottest;
  std::string space;
};

Status run_warm(const Program& program, const WarmOptions& options) {
  if (options.all + options.pinned + options.hottest.has_value() + !options.space.empty() == 0)
    return Status(StatusCode::invalid_argument, "say what: --all, --space, --hottest or --pinned");
  const auto daemon = program.connect();
  if (!daemon) return daemon.error();
  WarmSelection selection{options.pinned, options.hottest, std::nullopt};
  if (!options.space.empty()) {
    const auto space = resolve_space(**daemon, options.space);
    if (!space) return space.error();
    selection.space = space->digest();
  }
  std::vector<BlockKey> pinned;
  if (options.pinned) {
    const auto pins = (*daemon)->list_pins(call_deadline());
    if (!pins) return pins.error();
    for (const client::PinListing& pin : *pins) pinned.push_back(pin.key);
  }
  const auto listing = fetch_listing(**daemon, call_timeout);
  if (!listing) return listing.error();
  const auto [prefixes, whole_already] = choose_prefixes(*listing, selection, pinned);
  if (options.dry_run) {
    for (const WarmPrefix& prefix : prefixes)
      std::cout << prefix.keys.back().hex() << "  " << prefix.keys.size() << " blocks\n";
    std::cout << prefixes.size() << " prefixes would be warmed; " << whole_already
              << " are whole in the device tier already\n";
    return {};
  }
  const bool on_terminal = ::isatty(STDERR_FILENO) == 1;
  const auto outcome = warm_prefixes(**daemon, prefixes, on_terminal ? &std::cerr : nullptr,
                                     options.json ? &std::cout : nullptr);
  if (!outcome) return outcome.error();
  if (!options.json)
    std::cout << outcome->prefixes << " prefixes, of which " << outcome->whole
              << " are whole in the device tier: " << outcome->loaded << " blocks brought, "
              << outcome->there << " were there, "
              << outcome->blocks - outcome->loaded - outcome->there << " found no room or failed; "
              << whole_already << " more prefixes were whole already\n";
  return {};
}

// What takes its time where there are many blocks on disk.
Status report_gone(const Result<std::uint64_t>& blocks) {
  if (!blocks && blocks.error().code() == StatusCode::deadline_exceeded)
    return Status(StatusCode::internal, "the daemon is not done yet, and goes on");
  if (!blocks) return blocks.error();
  std::cout << "dropped " << *blocks << " blocks\n";
  return {};
}

struct EraseOptions {
  std::string what;
  bool yes = false;
};

Status run_evict(const Program& program, const EraseOptions& options) {
  const auto daemon = program.connect();
  if (!daemon) return daemon.error();
  const auto key = resolve_block(**daemon, options.what);
  if (!key) return key.error();
  if (Status status = confirm(
          "Evict block " + key->hex() + " and all that follow it from every tier, Redis included?",
          options.yes);
      !status.ok())
    return status;
  return report_gone((*daemon)->evict(*key, client::Deadline::clock::now() + drop_timeout));
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
  return report_gone((*daemon)->drop_space(digest, client::Deadline::clock::now() + drop_timeout));
}

Status run_flush(const Program& program, const EraseOptions& options) {
  const auto daemon = program.connect();
  if (!daemon) return daemon.error();
  if (Status status = confirm(
          "Drop every block of every space from every tier, and all pins? In Redis goes what "
          "this daemon knows of there.",
          options.yes);
      !status.ok())
    return status;
  const auto spaces = (*daemon)->list_spaces(call_deadline());
  if (!spaces) return spaces.error();
  std::uint64_t sum = 0;
  for (const SpaceDescriptor& space : *spaces) {
    const auto blocks =
        (*daemon)->drop_space(space.digest(), client::Deadline::clock::now() + drop_timeout);
    if (!blocks) return report_gone(blocks);
    sum += *blocks;
  }
  return report_gone(sum);
}

}  // namespace

void add_cache_verbs(Program& program) {
  auto of_ls = std::make_shared<LsOptions>();
  CLI::App* const ls = program.add_verb(
      program.app, "ls", "blocks, each prefix from its head to its tail", of_ls, run_ls);
  add_json_option(*ls, of_ls->json);
  ls->add_option("--limit", of_ls->limit, "show at most N blocks, 0 for all (a table shows 50)")
      ->type_name("N");

  auto of_tree = std::make_shared<TreeOptions>();
  CLI::App* const tree =
      program.add_verb(program.app, "tree", "prefixes as they branch", of_tree, run_tree);
  add_json_option(*tree, of_tree->json);
  tree->add_option("--limit", of_tree->limit, "show at most N prefixes, 0 for all (50)")
      ->type_name("N");
  tree->add_option("--model", of_tree->model_file, "a GGUF file: shows text instead of token ids");

  auto of_inspect = std::make_shared<InspectOptions>();
  CLI::App* const inspect = program.add_verb(
      program.app, "inspect", "everything that is known of one block", of_inspect, run_inspect);
  inspect->add_option("key", of_inspect->key, "of the block, or its first digits")->required();
  add_json_option(*inspect, of_inspect->json);

  auto of_why = std::make_shared<WhyOptions>();
  CLI::App* const why =
      program.add_verb(program.app, "why", "what a prompt would find, block for block, and why not",
                       of_why, run_why);
  why->add_option("--tokens", of_why->prompt.tokens_file,
                  "a file of token ids, as JSON or apart by blanks; - for the input");
  why->add_option("--prompt", of_why->prompt.text, "text, as a worker gets it");
  why->add_option("--model", of_why->prompt.model_file,
                  "the GGUF file whose tokenizer reads --prompt");
  why->add_option("--space", of_why->space, "label or digest, where there are several");
  add_json_option(*why, of_why->json);

  auto of_warm = std::make_shared<WarmOptions>();
  CLI::App* const warm = program.add_verb(
      program.app, "warm", "bring prefixes into the device tier before they are asked for", of_warm,
      run_warm);
  warm->add_flag("--all", of_warm->all, "all prefixes, the most recently used first");
  warm->add_option("--hottest", of_warm->hottest, "the N most recently used")->type_name("N");
  warm->add_option("--space", of_warm->space, "those of a space, by label or digest");
  warm->add_flag("--pinned", of_warm->pinned, "those that are pinned");
  warm->add_flag("--dry-run", of_warm->dry_run, "only say which");
  warm->add_flag("--json", of_warm->json, "print a line of JSON a block");

  const auto add_erasing = [&](const char* name, const char* about, const char* argument,
                               const char* about_argument, auto run) {
    auto options = std::make_shared<EraseOptions>();
    CLI::App* const verb = program.add_verb(program.app, name, about, options, run);
    if (argument) verb->add_option(argument, options->what, about_argument)->required();
    verb->add_flag("--yes", options->yes, "do not ask");
  };
  add_erasing("evict", "take a block and all that follow it out of every tier", "key",
              "of the block, or its first digits", run_evict);
  add_erasing("drop-space", "drop every block of a space", "space", "its label or digest",
              run_drop_space);
  add_erasing("flush", "drop every block there is", nullptr, nullptr, run_flush);
}

}  // namespace terrace::cli
