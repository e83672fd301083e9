// Verbs that show what is cached.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <optional>

#include "client/cli/confirm.h"
#include "client/cli/describe.h"
#include "client/cli/dump_block.h"
#include "client/cli/fetch_listing.h"
#include "client/cli/listing.h"
#include "client/cli/program.h"
#include "client/cli/prompt_tokens.h"
#include "client/cli/resolve.h"
#include "client/cli/select_blocks.h"
#include "client/cli/tree.h"
#include "core/clock.h"

namespace terrace::cli {
namespace {

// What a table shows unless told otherwise; --json shows everything.
constexpr std::size_t default_table_limit = 50;
// A block of hundreds of MB comes off a slow disk within this.
constexpr std::chrono::seconds dump_timeout{60};

struct LsOptions {
  bool json = false;
  std::optional<std::size_t> limit;
  std::string tier, space, order;
  std::uint32_t min_depth = 0;
  bool held = false, reverse = false;
};

BlockOrder order_named(const std::string& name) {
  for (const auto& [its_name, order] : block_orders)
    if (name == its_name) return order;
  return BlockOrder::key;
}

// Every prefix from its head to its tail.
Status list_prefixes(client::OperatorClient& daemon, const BlockFilter& filter, std::size_t limit,
                     SpaceLabels labels, BlockRows* json) {
  Listing listing;
  bool seen = false;
  const auto complete = visit_blocks(daemon, call_timeout, [&](const client::BlockListing& from) {
    seen = true;
    ListedBlock block = to_listed_block(from);
    if (!filter.takes(block)) return true;
    if (listing.blocks.size() == max_listed_blocks) return false;
    listing.blocks.push_back(std::move(block));
    return true;
  });
  if (!complete) return complete.error();
  listing.complete = *complete;
  if (!json && seen && listing.blocks.empty()) {
    std::cout << "there are no such blocks\n";
    return {};
  }
  listing.space_labels = std::move(labels);
  sort_by_prefix(listing.blocks);
  if (!json) {
    print_listing(listing, limit, std::cout);
    return {};
  }
  // A program is not to take a part for the whole.
  if (!listing.complete)
    return Status(StatusCode::resource_exhausted,
                  "there are more than " + std::to_string(max_listed_blocks) +
                      " blocks: too many to sort by prefix; --sort key lists them all");
  const std::size_t shown = limit == 0 ? listing.blocks.size() : limit;
  for (std::size_t i = 0; i < std::min(shown, listing.blocks.size()); ++i)
    json->add(listing.blocks[i]);
  json->end(0);
  return {};
}

// In the daemon's order, each page as it comes: a cache may hold millions.
Status list_pages(client::OperatorClient& daemon, const BlockFilter& filter, std::size_t limit,
                  BlockRows& rows) {
  std::size_t shown = 0, left_out = 0;
  const auto complete = visit_blocks(daemon, call_timeout, [&](const client::BlockListing& from) {
    const ListedBlock block = to_listed_block(from);
    if (!filter.takes(block)) return true;
    if (limit != 0 && shown == limit) {
      ++left_out;
      return true;
    }
    ++shown;
    rows.add(block);
    return std::cout.good();
  });
  if (!complete) return complete.error();
  rows.end(left_out);
  return {};
}

Status list_first(client::OperatorClient& daemon, const BlockFilter& filter, BlockOrder order,
                  bool reverse, std::size_t limit, BlockRows& rows) {
  FirstBlocks first(order, reverse, limit);
  const auto complete = visit_blocks(daemon, call_timeout, [&](const client::BlockListing& from) {
    const ListedBlock block = to_listed_block(from);
    if (filter.takes(block)) first.add(block);
    return true;
  });
  if (!complete) return complete.error();
  const std::vector<ListedBlock> blocks = first.take();
  for (const ListedBlock& block : blocks) rows.add(block);
  rows.end(first.seen() - blocks.size());
  return {};
}

Status run_ls(const Program& program, const LsOptions& options) {
  const BlockOrder order = order_named(!options.order.empty() ? options.order
                                       : options.json         ? "key"
                                                              : "prefix");
  if (options.reverse && (order == BlockOrder::key || order == BlockOrder::prefix))
    return Status(StatusCode::invalid_argument,
                  "--reverse turns an order round that --sort names, other than key and prefix");
  const auto daemon = program.connect();
  if (!daemon) return daemon.error();
  BlockFilter filter;
  filter.min_depth = options.min_depth;
  filter.held = options.held;
  for (const Tier tier : all_tiers)
    if (options.tier == to_string(tier)) filter.tier = tier;
  if (!options.space.empty()) {
    const auto spaces = resolve_spaces(**daemon, options.space);
    if (!spaces) return spaces.error();
    for (const SpaceDescriptor& space : *spaces) filter.spaces.insert(space.digest());
  }
  const auto labels = fetch_space_labels(**daemon, call_timeout);
  if (!labels) return labels.error();
  const std::size_t limit = options.limit.value_or(options.json ? 0 : default_table_limit);
  std::unique_ptr<BlockRows> rows;
  if (options.json)
    rows = std::make_unique<JsonRows>(*labels, std::cout);
  else
    rows = std::make_unique<TableRows>(SystemClock().unix_ms(), *labels, std::cout);
  switch (order) {
    case BlockOrder::prefix:
      return list_prefixes(**daemon, filter, limit, *labels, options.json ? rows.get() : nullptr);
    case BlockOrder::key:
      return list_pages(**daemon, filter, limit, *rows);
    default:
      return list_first(**daemon, filter, order, options.reverse, limit, *rows);
  }
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
  std::string key, dump_file;
  bool yes = false, json = false;
};

// The client has verified what it got against the block's checksum.
Status dump_block(client::OperatorClient& daemon, const BlockKey& key,
                  const InspectOptions& options) {
  std::error_code failure;
  if (std::filesystem::exists(std::filesystem::symlink_status(options.dump_file, failure)))
    if (Status status = confirm("Write over " + options.dump_file + "?", options.yes); !status.ok())
      return status;
  const auto block = daemon.read_block(key, client::Deadline::clock::now() + dump_timeout);
  if (!block) return block.error();
  return write_whole_file(options.dump_file, block->payload);
}

Status run_inspect(const Program& program, const InspectOptions& options) {
  const auto daemon = program.connect();
  if (!daemon) return daemon.error();
  const auto key = resolve_block(**daemon, options.key);
  if (!key) return key.error();
  const auto block = (*daemon)->inspect_json(*key, call_deadline());
  if (!block) return block.error();
  if (block->empty()) return Status(StatusCode::not_found, "there is no block " + key->hex());
  if (!options.dump_file.empty())
    if (Status status = dump_block(**daemon, *key, options); !status.ok()) return status;
  if (!options.json) {
    const auto sessions = (*daemon)->sessions_json(call_deadline());
    if (!sessions) return sessions.error();
    return print_inspection(*block, *sessions, SystemClock().unix_ms(), std::cout);
  }
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

}  // namespace

void add_look_verbs(Program& program) {
  auto of_ls = std::make_shared<LsOptions>();
  CLI::App* const ls =
      program.add_verb(program.app, "ls", "blocks, filtered and sorted", of_ls, run_ls);
  ls->add_option("--tier", of_ls->tier, "only those with a copy in this tier")
      ->check(CLI::IsMember({"device", "host", "disk", "redis"}));
  ls->add_option("--space", of_ls->space, "only those of spaces with this label or digest");
  ls->add_option("--min-depth", of_ls->min_depth, "only those with so many blocks before them")
      ->type_name("N");
  ls->add_flag("--held", of_ls->held, "only those that a lease holds");
  std::vector<std::string> orders;
  for (const auto& [name, order] : block_orders) orders.emplace_back(name);
  ls->add_option(
        "--sort", of_ls->order,
        "prefix (from head to tail; a table unless told otherwise), hits (the most used first), "
        "age (the oldest first), size, last-use (the last used first), depth, holders, or key (as "
        "they come; JSON unless told otherwise)")
      ->check(CLI::IsMember(orders));
  ls->add_flag("--reverse", of_ls->reverse, "the other end of that order first");
  ls->add_option("--limit", of_ls->limit, "show at most N blocks, 0 for all (a table shows 50)")
      ->type_name("N");
  add_json_option(*ls, of_ls->json);

  auto of_tree = std::make_shared<TreeOptions>();
  CLI::App* const tree =
      program.add_verb(program.app, "tree", "prefixes as they branch", of_tree, run_tree);
  add_json_option(*tree, of_tree->json);
  tree->add_option("--limit", of_tree->limit, "show at most N prefixes, 0 for all (50)")
      ->type_name("N");
  tree->add_option("--model", of_tree->model_file, "a GGUF file: shows text instead of token ids")
      ->type_name(file_type);

  auto of_inspect = std::make_shared<InspectOptions>();
  CLI::App* const inspect = program.add_verb(
      program.app, "inspect", "everything that is known of one block", of_inspect, run_inspect);
  inspect->add_option("key", of_inspect->key, "of the block, or its first 6 digits or more")
      ->required();
  inspect
      ->add_option("--dump", of_inspect->dump_file,
                   "write the block's bytes, verified, to this file, too")
      ->type_name(file_type);
  inspect->add_flag("--yes", of_inspect->yes, "write over a file that is there without asking");
  add_json_option(*inspect, of_inspect->json);

  auto of_why = std::make_shared<WhyOptions>();
  CLI::App* const why =
      program.add_verb(program.app, "why", "what a prompt would find, block for block, and why not",
                       of_why, run_why);
  PromptSource& prompt = of_why->prompt;
  CLI::Option* const tokens =
      why->add_option("--tokens", prompt.tokens_file,
                      "a file of token ids, as JSON or apart by blanks; - for the input")
          ->type_name(file_type);
  CLI::Option* const text =
      why->add_option("--prompt", prompt.text, "text, as terrace-worker generate gets it");
  CLI::Option* const text_file =
      why->add_option("--prompt-file", prompt.text_file, "the same from a file; - for the input")
          ->type_name(file_type);
  text->excludes(tokens)->excludes(text_file);
  text_file->excludes(tokens);
  CLI::Option* const system = why->add_option("--system", prompt.system, "the system prompt");
  CLI::Option* const system_file =
      why->add_option("--system-file", prompt.system_file, "the same from a file")
          ->type_name(file_type);
  system->excludes(system_file);
  why->add_flag("--raw", prompt.raw, "the prompt as it stands, without the model's chat template")
      ->excludes(system)
      ->excludes(system_file);
  why->add_option("--model", prompt.model_file,
                  "the GGUF file that the worker serves: its tokenizer and chat template")
      ->type_name(file_type);
  why->add_option("--space", of_why->space, "label or digest, where there are several");
  add_json_option(*why, of_why->json);
}

}  // namespace terrace::cli
