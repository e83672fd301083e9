#include "cache_daemon/http/prefix_board.h"

#include <kj/debug.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cache_daemon/http/http_limits.h"

namespace terrace::daemon {

using nlohmann::ordered_json;

kj::Promise<std::string> PrefixBoard::json() {
  const auto now = std::chrono::steady_clock::now();
  if (!scanning_ && made_at_ && now - *made_at_ < prefix_lifetime) return made_;
  if (!scanning_) {
    scanning_ = true;
    cursor_ = {};
    latest_.clear();
    // Of its own event: it may be over before fork() returns.
    scan_ = kj::evalLater([this] { return scan_on(); }).fork();
  }
  return KJ_ASSERT_NONNULL(scan_).addBranch().then([this] { return made_; });
}

kj::Promise<void> PrefixBoard::scan_on() {
  const auto next =
      context_.cache.find_tails(cursor_, prefix_looks_per_turn, max_shown_prefixes, latest_);
  if (next) {
    cursor_ = *next;
    // By way of the timer, so that whatever else there is to do comes in between.
    return context_.event_port.getTimer().afterDelay(0 * kj::SECONDS).then([this] {
      return scan_on();
    });
  }
  made_ = make_json();
  made_at_ = std::chrono::steady_clock::now();
  scanning_ = false;
  return kj::READY_NOW;
}

std::string PrefixBoard::make_json() {
  std::vector<storage::PrefixTail> tails = latest_;
  std::ranges::sort(tails, std::greater(), &storage::PrefixTail::recency);
  ordered_json runs = ordered_json::array();
  for (const storage::PrefixRun& run : context_.cache.prefix_runs(tails, max_shown_blocks)) {
    ordered_json one;
    const SpaceDescriptor* const space = context_.cache.space(run.space_id);
    const auto tokens = std::span(run.tokens).first(std::min(run.tokens.size(), max_shown_tokens));
    one["parent"] = run.parent ? ordered_json(*run.parent) : ordered_json();
    if (!run.parent) {
      one["space"] = run.space.hex();
      if (space) {
        one["label"] = space->label;
        one["tenant"] = space->tenant;
        one["block_tokens"] = space->block_tokens;
      }
    }
    one["first"] = run.first.hex();
    one["last"] = run.last.hex();
    one["depth"] = run.depth;
    one["blocks"] = run.blocks;
    one["bytes"] = run.bytes;
    one["used_unix_ms"] = run.recency;
    one["holders"] = run.holders;
    one["pinned"] = run.pinned;
    for (const Tier tier : all_tiers)
      one["tiers"][to_string(tier)] = run.blocks_in[static_cast<std::size_t>(tier)];
    one["tokens"] = tokens;
    if (space)
      if (auto text = texts_.text(space->label, tokens)) one["text"] = std::move(*text);
    runs.push_back(std::move(one));
  }
  return ordered_json{{"runs", std::move(runs)}}.dump(-1, ' ', false,
                                                      ordered_json::error_handler_t::replace);
}

}  // namespace terrace::daemon
