// `terrace warm`.
#include <unistd.h>

#include <iostream>
#include <optional>

#include "client/cli/fetch_listing.h"
#include "client/cli/program.h"
#include "client/cli/prompt_tokens.h"
#include "client/cli/resolve.h"
#include "client/cli/warm.h"

namespace terrace::cli {
namespace {

struct WarmOptions {
  bool all = false, pinned = false, dry_run = false, json = false;
  std::optional<std::size_t> hottest;
  std::string space, key, manifest, model_file;
  std::string to = to_string(Tier::device);
  Tier into() const { return to == to_string(Tier::host) ? Tier::host : Tier::device; }
};

// What the prompts of a manifest would find.
Result<WarmChoice> choose_from_manifest(client::OperatorClient& daemon,
                                        const WarmOptions& options) {
  const auto prompts = read_manifest(options.manifest, options.model_file);
  if (!prompts) return error(prompts.error());
  const auto space = resolve_space(daemon, options.space);
  if (!space) return error(space.error());
  WarmChoice choice;
  for (const std::vector<Token>& prompt : *prompts) {
    WarmPrefix prefix;
    prefix.space = space->digest();
    prefix.keys = derive_block_keys(prefix.space, prompt, space->block_tokens);
    // A prompt that fills no block finds none.
    if (prefix.keys.empty()) continue;
    prefix.tokens.assign(
        prompt.begin(),
        prompt.begin() + static_cast<std::ptrdiff_t>(prefix.keys.size() * space->block_tokens));
    prefix.whole = false;
    choice.prefixes.push_back(std::move(prefix));
  }
  return choice;
}

Result<WarmChoice> choose_from_cache(client::OperatorClient& daemon, const WarmOptions& options) {
  WarmSelection selection;
  selection.hottest = options.hottest;
  selection.into = options.into();
  if (!options.space.empty()) {
    const auto space = resolve_space(daemon, options.space);
    if (!space) return error(space.error());
    selection.space = space->digest();
  }
  if (options.pinned) {
    const auto pins = daemon.list_pins(call_deadline());
    if (!pins) return error(pins.error());
    selection.tails.emplace();
    for (const client::PinListing& pin : *pins) selection.tails->push_back(pin.key);
  }
  if (!options.key.empty()) {
    const auto key = resolve_block(daemon, options.key);
    if (!key) return error(key.error());
    selection.tails = {*key};
  }
  // All blocks: a part of them, chosen by their digests, has hardly any prefix as a whole.
  Listing listing;
  const auto complete = visit_blocks(daemon, call_timeout, [&](const client::BlockListing& block) {
    listing.blocks.push_back(to_listed_block(block));
    return true;
  });
  if (!complete) return error(complete.error());
  WarmChoice choice = choose_prefixes(listing, selection);
  if (!options.key.empty() && choice.prefixes.empty() && choice.whole_already == 0)
    return error(StatusCode::not_found, "the prefix that ends in block " +
                                            selection.tails->front().hex() +
                                            " is not there from its head on");
  return choice;
}

Status run_warm(const Program& program, const WarmOptions& options) {
  if (!options.all && !options.pinned && !options.hottest && options.space.empty() &&
      options.key.empty() && options.manifest.empty())
    return Status(StatusCode::invalid_argument,
                  "say what: --all, --space, --hottest, --pinned, --key or --manifest");
  const auto daemon = program.connect();
  if (!daemon) return daemon.error();
  const auto choice = options.manifest.empty() ? choose_from_cache(**daemon, options)
                                               : choose_from_manifest(**daemon, options);
  if (!choice) return choice.error();
  if (options.dry_run) {
    print_warm_plan(*choice, options.into(), options.json, std::cout);
    return {};
  }
  const bool on_terminal = ::isatty(STDERR_FILENO) == 1;
  const auto outcome =
      warm_prefixes(**daemon, choice->prefixes, options.into(), on_terminal ? &std::cerr : nullptr);
  if (!outcome) return outcome.error();
  print_warm_outcome(*outcome, choice->whole_already, options.json, std::cout);
  return {};
}

}  // namespace

void add_warm_verb(Program& program) {
  auto options = std::make_shared<WarmOptions>();
  CLI::App* const warm =
      program.add_verb(program.app, "warm", "bring prefixes into memory before they are asked for",
                       options, run_warm);
  warm->add_option("--to", options->to,
                   "the tier that they come to, from disk or Redis; to the host comes nothing that "
                   "is in the device tier")
      ->check(CLI::IsMember({to_string(Tier::device), to_string(Tier::host)}))
      ->capture_default_str();
  warm->add_flag("--all", options->all, "all prefixes, the most recently used first");
  CLI::Option* const hottest =
      warm->add_option("--hottest", options->hottest, "the N most recently used")->type_name("N");
  warm->add_option("--space", options->space, "those of a space, by label or digest");
  CLI::Option* const pinned = warm->add_flag("--pinned", options->pinned, "those that are pinned");
  CLI::Option* const key =
      warm->add_option("--key", options->key,
                       "the one that ends in this block: its key, or the first 6 digits or more");
  key->excludes(pinned);
  CLI::Option* const manifest =
      warm->add_option("--manifest", options->manifest,
                       "those of the prompts in this file, a line each: {\"tokens\": [1, 2]} or "
                       "{\"prompt\": "
                       "\"...\", \"system\": \"...\"}; Redis is asked, too")
          ->type_name(file_type);
  manifest->excludes(pinned)->excludes(key)->excludes(hottest);
  warm->add_option("--model", options->model_file,
                   "the GGUF file whose tokenizer and chat template read a manifest's prompts")
      ->type_name(file_type);
  warm->add_flag("--dry-run", options->dry_run, "only say which");
  add_json_option(*warm, options->json);
}

}  // namespace terrace::cli
