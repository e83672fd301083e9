// Single flight: which keys somebody is computing, and which acquisitions wait for one of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/block_key.h"
#include "storage/ids.h"

namespace terrace::storage {

// A key in its space: whoever knows the tokens of another space's block can name its key, and must
// neither see that it is computed there nor have others wait for him.
struct Flight {
  SpaceId space = 0;
  BlockKey key;

  bool operator==(const Flight&) const = default;
};

class Flights {
 public:
  // A slot was reserved under a key, or is so no longer: sealed, released, abandoned.
  void begin(const Flight& flight, SessionId session) { reservers_[flight].push_back(session); }
  void end(const Flight& flight, SessionId session);

  bool pending(const Flight& flight) const {
    return !reservers_.empty() && reservers_.contains(flight);
  }
  // Whether a session other than `session` is computing it: nobody waits for themselves.
  bool others_compute(const Flight& flight, SessionId session) const;
  std::size_t pending_keys() const { return reservers_.size(); }
  std::size_t reservations() const;

  // An acquisition waits for one key at a time, until `limit_ns` at most.
  void wait(std::uint64_t acquisition, const Flight& flight, std::int64_t limit_ns);
  void stop_waiting(std::uint64_t acquisition, const Flight& flight, std::int64_t limit_ns);
  // What is waited for has happened, or cannot happen any more.
  void changed(const Flight& flight);
  // Acquisitions that are to look again, each still waiting. Empty once there are none.
  std::vector<std::uint64_t> take_changed();
  // Likewise those whose limit is over.
  std::vector<std::uint64_t> past_limit(std::int64_t now_ns) const;
  std::vector<std::uint64_t> all_waiting() const;
  std::optional<std::int64_t> next_limit_ns() const;
  std::size_t waiting() const { return limits_.size(); }
  bool waits(std::uint64_t acquisition, const Flight& flight) const;

 private:
  struct Hash {
    std::size_t operator()(const Flight& flight) const noexcept {
      return std::hash<BlockKey>()(flight.key) ^ flight.space;
    }
  };

  std::unordered_map<Flight, std::vector<SessionId>, Hash> reservers_;  // one entry a reservation
  std::unordered_map<Flight, std::vector<std::uint64_t>, Hash> waiters_;
  std::set<std::pair<std::int64_t, std::uint64_t>> limits_;
  std::vector<Flight> changed_;
};

}  // namespace terrace::storage
