// Which seals and releases the daemon has not answered yet. Lives on the connection's thread.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "client/call.h"

namespace terrace::client {

class Ledger {
 public:
  using Done = Answer<std::monostate>;

  std::uint64_t enter() {
    open_.insert(++last_);
    return last_;
  }

  void answered(std::uint64_t entry) {
    open_.erase(entry);
    tell();
  }

  // Answers once everything entered so far has been answered.
  void when_answered(Done done) {
    waiting_.emplace_back(last_, std::move(done));
    tell();
  }

  // The connection is gone: whoever waits is told so.
  void clear() {
    open_.clear();
    waiting_.clear();
  }

 private:
  void tell() {
    const std::uint64_t first_open = open_.empty() ? last_ + 1 : *open_.begin();
    std::erase_if(waiting_, [&](const auto& waiting) {
      if (waiting.first >= first_open) return false;
      waiting.second(std::monostate());
      return true;
    });
  }

  std::uint64_t last_ = 0;
  std::set<std::uint64_t> open_;
  std::vector<std::pair<std::uint64_t, Done>> waiting_;
};

}  // namespace terrace::client
