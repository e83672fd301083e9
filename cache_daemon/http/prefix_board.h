// The prefixes that were used last, as a tree. All blocks are looked at for it, a few in each turn,
// while somebody asks.
#pragma once

#include <kj/async.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cache_daemon/context.h"
#include "cache_daemon/http/token_text.h"

namespace terrace::daemon {

class PrefixBoard {
 public:
  // Both must outlive this.
  PrefixBoard(const Context& context, TokenText& texts) : context_(context), texts_(texts) {}

  // A JSON object; docs/metrics.md lists its fields.
  kj::Promise<std::string> json();

 private:
  kj::Promise<void> scan_on();
  std::string make_json();

  const Context& context_;
  TokenText& texts_;
  bool scanning_ = false;
  kj::Maybe<kj::ForkedPromise<void>> scan_;
  BlockKey cursor_;
  std::vector<storage::PrefixTail> latest_;
  std::string made_;
  std::optional<std::chrono::steady_clock::time_point> made_at_;
};

}  // namespace terrace::daemon
