// What is remembered of blocks that are gone: their last use, by the first bytes of their keys.
// Two keys that share these count as one, which may mislead a guess and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "storage/policy/reuse_class.h"

namespace terrace::storage {

class GhostTable {
 public:
  // How many may be remembered. The oldest are forgotten first.
  void set_limit(std::size_t ghosts) { limit_ = ghosts; }
  std::size_t size() const { return size_; }

  // Remembers `key`, which is not there, as the newest.
  void put(std::uint64_t key, const ReuseState& state);
  // Removes and returns it, if it is there.
  std::optional<ReuseState> take(std::uint64_t key);
  // Removes and returns the oldest while there are more than the limit.
  std::optional<ReuseState> take_excess();

 private:
  static constexpr std::uint32_t none = UINT32_MAX;
  struct Entry {
    std::uint64_t key = 0;
    ReuseState state;
    std::uint32_t next = none;  // with the same hash
    bool gone = false;
  };

  std::uint32_t& chain(std::uint64_t key) { return chains_[key & (chains_.size() - 1)]; }
  Entry& entry(std::uint32_t number) { return entries_[number & (entries_.size() - 1)]; }
  std::uint32_t locate(std::uint64_t key);
  void unchain(std::uint32_t number);
  void grow();

  std::size_t limit_ = 0;
  std::size_t size_ = 0;
  // A ring in the order of arrival: entries first_ … next_ - 1, some of them gone. Its size is a
  // power of two.
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> chains_;  // the number of the newest of each hash
  std::uint32_t first_ = 0, next_ = 0;
};

}  // namespace terrace::storage
