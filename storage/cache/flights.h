// Single flight: which keys somebody is computing, and which acquisitions wait for one of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/block_key.h"
#include "storage/ids.h"

namespace terrace::storage {

class Flights {
 public:
  // A slot was reserved under `key`, or is so no longer: sealed, released, abandoned.
  void begin(const BlockKey& key, SessionId session) { reservers_[key].push_back(session); }
  void end(const BlockKey& key, SessionId session);

  bool pending(const BlockKey& key) const {
    return !reservers_.empty() && reservers_.contains(key);
  }
  // Whether a session other than `session` is computing it: nobody waits for themselves.
  bool others_compute(const BlockKey& key, SessionId session) const;
  std::size_t pending_keys() const { return reservers_.size(); }
  std::size_t reservations() const;

  // An acquisition waits for one key at a time, until `limit_ns` at most.
  void wait(std::uint64_t acquisition, const BlockKey& key, std::int64_t limit_ns);
  void stop_waiting(std::uint64_t acquisition, const BlockKey& key, std::int64_t limit_ns);
  // What `key` waits for has happened, or cannot happen any more.
  void changed(const BlockKey& key);
  // Acquisitions that are to look again, each still waiting. Empty once there are none.
  std::vector<std::uint64_t> take_changed();
  // Likewise those whose limit is over.
  std::vector<std::uint64_t> past_limit(std::int64_t now_ns) const;
  std::vector<std::uint64_t> all_waiting() const;
  std::optional<std::int64_t> next_limit_ns() const;
  std::size_t waiting() const { return limits_.size(); }
  bool waits(std::uint64_t acquisition, const BlockKey& key) const;

 private:
  std::unordered_map<BlockKey, std::vector<SessionId>> reservers_;  // one entry a reservation
  std::unordered_map<BlockKey, std::vector<std::uint64_t>> waiters_;
  std::set<std::pair<std::int64_t, std::uint64_t>> limits_;
  std::vector<BlockKey> changed_;
};

}  // namespace terrace::storage
