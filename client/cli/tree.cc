#include "client/cli/tree.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "client/cli/text.h"
#include "core/bytes.h"

namespace terrace::cli {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t shown_tokens = 8;
constexpr std::size_t shown_text_characters = 60;

// Blocks that follow one another without a branch, and what branches off behind them.
struct Run {
  std::vector<const ListedBlock*> blocks;
  std::vector<Run> branches;
};

class Forest {
 public:
  explicit Forest(const Listing& listing) {
    std::unordered_map<BlockKey, bool> known;
    for (const ListedBlock& block : listing.blocks) known.emplace(block.key, true);
    for (const ListedBlock& block : listing.blocks) {
      const bool has_parent = block.depth > 0 && known.contains(block.parent);
      (has_parent ? children_[block.parent] : roots_[block.space]).push_back(&block);
    }
  }

  std::vector<BlockKey> spaces() const {
    std::vector<BlockKey> spaces;
    for (const auto& [space, blocks] : roots_) spaces.push_back(space);
    std::ranges::sort(spaces);
    return spaces;
  }

  std::vector<Run> runs_of(const BlockKey& space) const { return runs(roots_.at(space)); }

 private:
  std::vector<Run> runs(std::vector<const ListedBlock*> heads) const {
    // The most recently used first.
    std::ranges::sort(heads, [](const ListedBlock* a, const ListedBlock* b) {
      return std::tie(b->recency, a->key) < std::tie(a->recency, b->key);
    });
    std::vector<Run> made;
    for (const ListedBlock* head : heads) {
      Run& run = made.emplace_back();
      for (const ListedBlock* at = head; at;) {
        run.blocks.push_back(at);
        const auto found = children_.find(at->key);
        if (found == children_.end()) break;
        if (found->second.size() > 1) {
          run.branches = runs(found->second);
          break;
        }
        at = found->second.front();
      }
    }
    return made;
  }

  std::unordered_map<BlockKey, std::vector<const ListedBlock*>> children_, roots_;
};

std::string tiers_of(const Run& run) {
  std::string joined;
  for (const Tier tier : all_tiers) {
    const auto with =
        static_cast<std::size_t>(std::ranges::count_if(run.blocks, [&](const ListedBlock* block) {
          return block->tiers[static_cast<std::size_t>(tier)];
        }));
    if (with == 0) continue;
    joined += (joined.empty() ? "" : "+") + std::string(to_string(tier));
    if (with < run.blocks.size()) joined += "(" + std::to_string(with) + ")";
  }
  return joined;
}

std::vector<Token> tokens_of(const Run& run) {
  std::vector<Token> tokens;
  for (const ListedBlock* block : run.blocks)
    tokens.insert(tokens.end(), block->token_ids.begin(), block->token_ids.end());
  return tokens;
}

std::uint64_t token_count(const Run& run) {
  std::uint64_t count = 0;
  for (const ListedBlock* block : run.blocks) count += block->tokens;
  return count;
}
std::uint64_t bytes_of(const Run& run) {
  std::uint64_t bytes = 0;
  for (const ListedBlock* block : run.blocks) bytes += block->bytes;
  return bytes;
}

std::string beginning(const Run& run, const TextOf& text_of) {
  const std::vector<Token>& ids = run.blocks.front()->token_ids;
  if (text_of) return "\"" + shortened(visible(text_of(ids)), shown_text_characters) + "\"";
  std::string text = "[";
  for (std::size_t i = 0; i < std::min(ids.size(), shown_tokens); ++i)
    text += (i == 0 ? "" : " ") + std::to_string(ids[i]);
  return text + (ids.size() > shown_tokens ? " ...]" : "]");
}

class Printer {
 public:
  Printer(std::size_t limit, std::int64_t now_unix_ms, const TextOf& text_of, std::ostream& out)
      : limit_(limit), now_unix_ms_(now_unix_ms), text_of_(text_of), out_(out) {}

  void print(const std::vector<Run>& runs, const std::string& indent) {
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const Run& run = runs[i];
      if (limit_ != 0 && lines_ == limit_) {
        ++left_out_;
        continue;
      }
      ++lines_;
      const bool last = i + 1 == runs.size();
      const ListedBlock& tail = *run.blocks.back();
      out_ << indent << (last ? "`- " : "|- ") << counted(run.blocks.size(), "block") << ", "
           << counted(token_count(run), "token") << ", " << format_bytes(bytes_of(run)) << ", "
           << tiers_of(run) << ", " << counted(tail.uses, "use") << ", made "
           << format_age(now_unix_ms_ - tail.created_unix_ms) << " ago, used "
           << format_age(now_unix_ms_ - static_cast<std::int64_t>(tail.recency)) << " ago, "
           << tail.key.hex().substr(0, 12) << " " << beginning(run, text_of_) << "\n";
      print(run.branches, indent + (last ? "   " : "|  "));
    }
  }
  std::size_t left_out() const { return left_out_; }

 private:
  const std::size_t limit_;
  const std::int64_t now_unix_ms_;
  const TextOf& text_of_;
  std::ostream& out_;
  std::size_t lines_ = 0, left_out_ = 0;
};

ordered_json to_json(const std::vector<Run>& runs, const TextOf& text_of) {
  ordered_json list = ordered_json::array();
  for (const Run& run : runs) {
    ordered_json one = {{"key", run.blocks.back()->key.hex()},
                        {"blocks", run.blocks.size()},
                        {"tokens", token_count(run)},
                        {"bytes", bytes_of(run)},
                        {"tiers", tiers_of(run)},
                        {"uses", run.blocks.back()->uses},
                        {"created_unix_ms", run.blocks.back()->created_unix_ms},
                        {"recency", run.blocks.back()->recency}};
    if (text_of) one["text"] = text_of(tokens_of(run));
    one["branches"] = to_json(run.branches, text_of);
    list.push_back(std::move(one));
  }
  return list;
}

std::string label_of(const Listing& listing, const BlockKey& space) {
  const auto label = listing.space_labels.find(space);
  return label == listing.space_labels.end() ? "" : label->second;
}

}  // namespace

void print_tree(const Listing& listing, std::size_t limit, std::int64_t now_unix_ms,
                const TextOf& text_of, std::ostream& out) {
  if (listing.blocks.empty()) out << "the cache is empty\n";
  const Forest forest(listing);
  for (const BlockKey& space : forest.spaces()) {
    const std::string label = label_of(listing, space);
    out << "space " << space.hex().substr(0, 12)
        << (label.empty() ? "" : " (" + printable(label) + ")") << "\n";
    Printer printer(limit, now_unix_ms, text_of, out);
    printer.print(forest.runs_of(space), "");
    if (printer.left_out() > 0)
      out << "and " << printer.left_out() << " more "
          << (printer.left_out() == 1 ? "prefix" : "prefixes") << "; --limit 0 shows all\n";
  }
  if (!listing.complete) out << "the cache holds more blocks than are listed here\n";
}

void print_tree_json(const Listing& listing, const TextOf& text_of, std::ostream& out) {
  const Forest forest(listing);
  ordered_json list = ordered_json::array();
  for (const BlockKey& space : forest.spaces())
    list.push_back({{"space", space.hex()},
                    {"label", label_of(listing, space)},
                    {"prefixes", to_json(forest.runs_of(space), text_of)}});
  const ordered_json tree = {{"truncated", !listing.complete}, {"spaces", std::move(list)}};
  // Text and labels come from clients.
  out << tree.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << "\n";
}

}  // namespace terrace::cli
