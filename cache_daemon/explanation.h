// What a match of a prompt finds, block for block, and why not: in steps, each of which takes the
// deciding thread less than a millisecond, whatever the prompt's length.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "cache_daemon/context.h"
#include "core/block_key.h"
#include "storage/tiered_cache.h"

namespace terrace::daemon {

class Explanation {
 public:
  // `digest` is the space's.
  Explanation(const storage::TieredCache& cache, storage::SpaceId space, const BlockKey& digest,
              std::vector<Token> tokens);

  // Each is called until it answers true, and then the next one.
  bool derive_keys();
  // May be begun anew, when Redis has been asked: what was found so far is looked at again.
  bool match();
  void forget_match();
  // `asked`: Redis was, of what is missing. `late`: it did not answer in time.
  bool write(bool asked, bool late);

  // Once there are keys.
  const std::vector<BlockKey>& keys() const { return keys_; }
  const std::vector<Token>& tokens() const { return tokens_; }
  storage::SpaceId space() const { return space_; }
  // Once they are matched.
  std::size_t matched_blocks() const { return found_.matched_blocks; }
  // Once it is written: docs/protocol.md says what it has. Nothing is left behind.
  std::string take_json() { return std::move(json_); }

 private:
  void find_partial();
  std::string reason(std::size_t block) const;

  const storage::TieredCache& cache_;
  const storage::SpaceId space_;
  const BlockKey digest_;
  const std::vector<Token> tokens_;
  const std::uint32_t block_tokens_;
  std::vector<BlockKey> keys_;
  storage::MatchResult found_;  // of as many keys as it has blocks
  std::string redis_;           // what is to be said of it where a block is missing
  std::size_t written_ = 0;     // blocks
  std::string json_;
};

// Calls `step` once a turn until it answers true.
template <typename Step>
kj::Promise<void> in_turns(Context& context, Step step) {
  if (step()) return kj::READY_NOW;
  return context.event_port.getTimer()
      .afterDelay(0 * kj::SECONDS)
      .then([&context, step = kj::mv(step)]() mutable { return in_turns(context, kj::mv(step)); });
}

}  // namespace terrace::daemon
