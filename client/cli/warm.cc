#include "client/cli/warm.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <ostream>
#include <unordered_map>
#include <unordered_set>

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

}  // namespace

WarmChoice choose_prefixes(const Listing& listing, const WarmSelection& selection,
                           const std::vector<BlockKey>& pins) {
  std::unordered_map<BlockKey, const ListedBlock*> by_key;
  std::unordered_set<BlockKey> followed;
  for (const ListedBlock& block : listing.blocks) {
    by_key.emplace(block.key, &block);
    if (block.depth > 0) followed.insert(block.parent);
  }
  const std::unordered_set<BlockKey> pinned(pins.begin(), pins.end());
  std::vector<WarmPrefix> chosen;
  for (const ListedBlock& tail : listing.blocks) {
    const bool wanted = selection.pinned ? pinned.contains(tail.key) : !followed.contains(tail.key);
    if (!wanted || (selection.space && *selection.space != tail.space)) continue;
    WarmPrefix prefix{.space = tail.space, .keys = {}, .recency = tail.recency};
    const ListedBlock* at = &tail;
    for (;;) {
      prefix.keys.push_back(at->key);
      prefix.whole = prefix.whole && at->tiers[static_cast<std::size_t>(Tier::device)];
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

Result<WarmOutcome> warm_prefixes(client::OperatorClient& daemon,
                                  const std::vector<WarmPrefix>& prefixes, std::ostream* progress,
                                  std::ostream* report) {
  WarmOutcome outcome;
  std::unordered_set<BlockKey> seen;
  for (const WarmPrefix& prefix : prefixes) {
    if (progress) show_progress(*progress, outcome.prefixes, prefixes.size());
    const auto tiers =
        daemon.warm(prefix.space, prefix.keys, client::Deadline::clock::now() + warm_timeout);
    if (!tiers) {
      if (progress) *progress << "\n";
      return error(tiers.error());
    }
    ++outcome.prefixes;
    outcome.whole += tiers->size() == prefix.keys.size();
    for (std::size_t i = 0; i < prefix.keys.size(); ++i) {
      // Prefixes share their heads.
      if (!seen.insert(prefix.keys[i]).second) continue;
      ++outcome.blocks;
      const bool came = i < tiers->size();
      if (came) ++((*tiers)[i] == Tier::device ? outcome.there : outcome.loaded);
      if (report)
        *report << nlohmann::ordered_json{{"key", prefix.keys[i].hex()},
                                          {"outcome", !came                         ? "not_brought"
                                                      : (*tiers)[i] == Tier::device ? "was_there"
                                                                                    : "brought"},
                                          {"from",
                                           came ? nlohmann::ordered_json(to_string((*tiers)[i]))
                                                : nlohmann::ordered_json()}}
                       .dump()
                << "\n";
    }
  }
  if (progress) {
    show_progress(*progress, outcome.prefixes, prefixes.size());
    *progress << "\n";
  }
  return outcome;
}

}  // namespace terrace::cli
