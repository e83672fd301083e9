// The prefixes that were used last, as a tree. All blocks are looked at for it, a few in each turn,
// while somebody asks.
#pragma once

#include <kj/async.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cache_daemon/context.h"

namespace terrace::daemon {

class PrefixBoard {
 public:
  // `context` must outlive this.
  explicit PrefixBoard(const Context& context) : context_(context) {}

  // A JSON object; docs/metrics.md lists its fields.
  kj::Promise<std::string> json();

 private:
  kj::Promise<void> scan_on();
  std::string make_json() const;

  const Context& context_;
  bool scanning_ = false;
  kj::Maybe<kj::ForkedPromise<void>> scan_;
  BlockKey cursor_;
  std::vector<storage::PrefixTail> latest_;
  std::string made_;
  std::optional<std::chrono::steady_clock::time_point> made_at_;
};

}  // namespace terrace::daemon
