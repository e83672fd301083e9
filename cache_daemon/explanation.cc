#include "cache_daemon/explanation.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace terrace::daemon {
namespace {

using nlohmann::ordered_json;

// What one step does at most: a key is some hashes of its tokens.
constexpr std::size_t max_tokens_hashed_a_turn = 32 * 512;
constexpr std::size_t max_keys_matched_a_turn = 2048;
constexpr std::size_t max_blocks_written_a_turn = 256;

const char* state_name(BlockState state) {
  switch (state) {
    case BlockState::absent:
      return "absent";
    case BlockState::pending:
      return "pending";
    case BlockState::device:
    case BlockState::host:
    case BlockState::disk:
    case BlockState::redis:
      break;
  }
  return to_string(static_cast<Tier>(static_cast<std::uint8_t>(state) -
                                     static_cast<std::uint8_t>(BlockState::device)));
}

// What the tier that other hosts share says of the first block that is missing.
std::string redis_says(const storage::RemoteUsage& usage, bool asked, bool late) {
  if (usage.breaker != storage::Breaker::closed)
    return "; Redis is not asked, because it failed: " + usage.last_failure;
  if (late) return "; Redis did not answer in time";
  return asked ? "; nor does Redis have it" : "; Redis is not asked";
}

}  // namespace

Explanation::Explanation(const storage::TieredCache& cache, storage::SpaceId space,
                         const BlockKey& digest, std::vector<Token> tokens)
    : cache_(cache),
      space_(space),
      digest_(digest),
      tokens_(std::move(tokens)),
      block_tokens_(cache.space(space)->block_tokens) {}

bool Explanation::derive_keys() {
  const std::size_t from = keys_.size() * block_tokens_;
  const std::size_t blocks = std::max<std::size_t>(max_tokens_hashed_a_turn / block_tokens_, 1);
  const auto some =
      std::span(tokens_).subspan(from, std::min(blocks * block_tokens_, tokens_.size() - from));
  const auto keys = derive_block_keys(keys_.empty() ? digest_ : keys_.back(), some, block_tokens_);
  keys_.insert(keys_.end(), keys.begin(), keys.end());
  return keys_.size() == tokens_.size() / block_tokens_;
}

void Explanation::forget_match() { found_ = {}; }

bool Explanation::match() {
  const std::size_t from = found_.blocks.size();
  const auto some =
      std::span(keys_).subspan(from, std::min(max_keys_matched_a_turn, keys_.size() - from));
  const storage::MatchResult part = cache_.match(space_, some, {});
  if (found_.matched_blocks == from) {
    found_.matched_blocks += part.matched_blocks;
    found_.load_ns += part.load_ns;
  }
  found_.blocks.insert(found_.blocks.end(), part.blocks.begin(), part.blocks.end());
  if (found_.blocks.size() < keys_.size()) return false;
  find_partial();
  return true;
}

// The block that shares the first tokens of the first missing one, with the block before that.
void Explanation::find_partial() {
  const std::size_t before = found_.matched_blocks > 0 ? 1 : 0;
  const std::size_t from = found_.matched_blocks - before;
  const auto tokens = std::span(tokens_).subspan(from * block_tokens_);
  const storage::MatchResult part =
      cache_.match(space_, std::span(keys_).subspan(from, before),
                   tokens.first(std::min<std::size_t>(tokens.size(), 2 * block_tokens_)));
  if (part.matched_blocks != before) return;  // gone since
  found_.partial_tokens = part.partial_tokens;
  found_.partial_key = part.partial_key;
}

// Why a block is where it is, or is not.
std::string Explanation::reason(std::size_t i) const {
  const BlockState state = found_.blocks[i];
  if (i < found_.matched_blocks) return "a hit";
  if (state == BlockState::pending) return "a session is computing it now";
  if (is_present(state)) return "it is there, but a block before it is missing: out of reach";
  if (i > found_.matched_blocks) return "it follows a missing block";
  std::string why = "no block with these tokens is known here: never sealed, or evicted" + redis_;
  if (found_.partial_tokens > 0)
    why += "; " + std::to_string(found_.partial_tokens) + " of its " +
           std::to_string(block_tokens_) + " tokens agree with block " + found_.partial_key.hex();
  return why;
}

bool Explanation::write(bool asked, bool late) {
  if (json_.empty()) {
    const auto remote = cache_.stats().remote;
    redis_ = remote ? redis_says(remote->usage, asked, late) : "";
    const std::size_t whole = keys_.size() * block_tokens_;
    json_ = ordered_json{{"space", digest_.hex()},
                         {"tokens", tokens_.size()},
                         {"block_tokens", block_tokens_},
                         {"matched_blocks", found_.matched_blocks},
                         {"matched_tokens", std::size_t{found_.matched_blocks} * block_tokens_ +
                                                found_.partial_tokens},
                         {"partial_tokens", found_.partial_tokens},
                         {"tail_tokens", tokens_.size() - whole},
                         {"load_ns", found_.load_ns}}
                .dump();
    json_.back() = ',';  // in place of the brace
    json_ += "\"blocks\":[";
  }
  const std::size_t end = std::min(written_ + max_blocks_written_a_turn, keys_.size());
  for (; written_ < end; ++written_) {
    if (written_ > 0) json_ += ',';
    // What a server said is not always text.
    json_ += ordered_json{{"key", keys_[written_].hex()},
                          {"state", state_name(found_.blocks[written_])},
                          {"why", reason(written_)}}
                 .dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  }
  if (written_ < keys_.size()) return false;
  json_ += "]}";
  return true;
}

}  // namespace terrace::daemon
