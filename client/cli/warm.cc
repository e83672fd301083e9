#include "client/cli/warm.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <ostream>
#include <unordered_map>
#include <unordered_set>

#include "client/cli/text.h"

namespace terrace::cli {
namespace {

// A prefix of 100,000 tokens comes from a slow disk within this.
constexpr std::chrono::seconds warm_timeout{60};
constexpr std::size_t progress_bar_characters = 30;

void show_progress(std::ostream& out, std::size_t done, std::size_t all) {
  const std::size_t filled =
      all == 0 ? progress_bar_characters : done * progress_bar_characters / all;
  out << "\r[" << std::string(filled, '#') << std::string(progress_bar_characters - filled, '.')
      << "] " << done << "/" << all << " prefixes" << std::flush;
}

// In the tier, or in one above it.
bool is_there(const ListedBlock& block, Tier tier) {
  for (std::size_t above = 0; above <= static_cast<std::size_t>(tier); ++above)
    if (block.tiers[above]) return true;
  return false;
}

}  // namespace

WarmChoice choose_prefixes(const Listing& listing, const WarmSelection& selection) {
  std::unordered_map<BlockKey, const ListedBlock*> by_key;
  std::unordered_set<BlockKey> followed;
  for (const ListedBlock& block : listing.blocks) {
    by_key.emplace(block.key, &block);
    if (block.depth > 0) followed.insert(block.parent);
  }
  std::unordered_set<BlockKey> tails;
  if (selection.tails) tails.insert(selection.tails->begin(), selection.tails->end());
  std::vector<WarmPrefix> chosen;
  for (const ListedBlock& tail : listing.blocks) {
    const bool wanted = selection.tails ? tails.contains(tail.key) : !followed.contains(tail.key);
    if (!wanted || (selection.space && *selection.space != tail.space)) continue;
    WarmPrefix prefix{.space = tail.space, .keys = {}, .recency = tail.recency};
    const ListedBlock* at = &tail;
    for (;;) {
      prefix.keys.push_back(at->key);
      prefix.whole = prefix.whole && is_there(*at, selection.into);
      if (at->depth == 0) break;
      const auto parent = by_key.find(at->parent);
      if (parent == by_key.end()) break;
      at = parent->second;
    }
    // Without its head nothing of it can be acquired.
    if (at->depth != 0) continue;
    std::ranges::reverse(prefix.keys);
    chosen.push_back(std::move(prefix));
  }
  std::ranges::sort(chosen, [](const WarmPrefix& a, const WarmPrefix& b) {
    return std::tie(b.recency, a.keys.back()) < std::tie(a.recency, b.keys.back());
  });
  if (selection.hottest && chosen.size() > *selection.hottest) chosen.resize(*selection.hottest);
  WarmChoice choice;
  choice.whole_already = std::erase_if(chosen, [](const WarmPrefix& one) { return one.whole; });
  choice.prefixes = std::move(chosen);
  return choice;
}

std::size_t WarmOutcome::there() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      blocks, [this](const WarmedBlock& block) { return block.from && *block.from <= into; }));
}

std::size_t WarmOutcome::brought() const {
  return static_cast<std::size_t>(std::ranges::count_if(
             blocks, [](const WarmedBlock& block) { return block.from.has_value(); })) -
         there();
}

Result<WarmOutcome> warm_prefixes(client::OperatorClient& daemon,
                                  const std::vector<WarmPrefix>& prefixes, Tier into,
                                  std::ostream* progress) {
  WarmOutcome outcome;
  outcome.into = into;
  std::unordered_set<BlockKey> seen;
  for (const WarmPrefix& prefix : prefixes) {
    if (progress) show_progress(*progress, outcome.prefixes, prefixes.size());
    const auto tiers = daemon.warm(prefix.space, prefix.keys, prefix.tokens, into,
                                   client::Deadline::clock::now() + warm_timeout);
    if (!tiers) {
      if (progress) *progress << "\n";
      return error(tiers.error());
    }
    ++outcome.prefixes;
    outcome.whole += tiers->size() == prefix.keys.size();
    for (std::size_t i = 0; i < prefix.keys.size(); ++i) {
      // Prefixes share their heads.
      if (!seen.insert(prefix.keys[i]).second) continue;
      outcome.blocks.push_back({prefix.keys[i], std::nullopt});
      if (i < tiers->size()) outcome.blocks.back().from = (*tiers)[i];
    }
  }
  if (progress) {
    show_progress(*progress, outcome.prefixes, prefixes.size());
    *progress << "\n";
  }
  return outcome;
}

void print_warm_plan(const WarmChoice& choice, Tier into, bool json, std::ostream& out) {
  if (json) {
    auto prefixes = nlohmann::ordered_json::array();
    for (const WarmPrefix& prefix : choice.prefixes)
      prefixes.push_back({{"key", prefix.keys.back().hex()},
                          {"space", prefix.space.hex()},
                          {"blocks", prefix.keys.size()}});
    out << nlohmann::ordered_json{{"dry_run", true},
                                  {"to", to_string(into)},
                                  {"prefixes", std::move(prefixes)},
                                  {"whole_already", choice.whole_already}}
        << "\n";
    return;
  }
  for (const WarmPrefix& prefix : choice.prefixes)
    out << prefix.keys.back().hex() << "  " << counted(prefix.keys.size(), "block") << "\n";
  out << counted(choice.prefixes.size(), "prefix") << " would be warmed; " << choice.whole_already
      << (choice.whole_already == 1 ? " is" : " are") << " whole in the " << to_string(into)
      << " tier already\n";
}

void print_warm_outcome(const WarmOutcome& outcome, std::size_t whole_already, bool json,
                        std::ostream& out) {
  const std::size_t there = outcome.there(), brought = outcome.brought(),
                    left = outcome.blocks.size() - there - brought;
  if (json) {
    auto blocks = nlohmann::ordered_json::array();
    for (const WarmedBlock& block : outcome.blocks)
      blocks.push_back({{"key", block.key.hex()},
                        {"outcome", !block.from                   ? "not_brought"
                                    : *block.from <= outcome.into ? "was_there"
                                                                  : "brought"},
                        {"from", block.from ? nlohmann::ordered_json(to_string(*block.from))
                                            : nlohmann::ordered_json()}});
    out << nlohmann::ordered_json{{"dry_run", false},
                                  {"to", to_string(outcome.into)},
                                  {"prefixes", outcome.prefixes},
                                  {"whole", outcome.whole},
                                  {"whole_already", whole_already},
                                  {"brought", brought},
                                  {"was_there", there},
                                  {"not_brought", left},
                                  {"blocks", std::move(blocks)}}
        << "\n";
    return;
  }
  out << counted(outcome.prefixes, "prefix") << ", of which " << outcome.whole
      << (outcome.whole == 1 ? " is" : " are") << " whole in the " << to_string(outcome.into)
      << " tier: " << counted(brought, "block") << " brought, " << there
      << (there == 1 ? " was" : " were") << " there, " << left
      << " not known, without room or failed";
  if (whole_already > 0)
    out << "; " << counted(whole_already, "more prefix") << (whole_already == 1 ? " was" : " were")
        << " whole already";
  out << "\n";
}

}  // namespace terrace::cli
