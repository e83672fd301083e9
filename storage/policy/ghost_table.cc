#include "storage/policy/ghost_table.h"

namespace terrace::storage {

namespace {
constexpr std::size_t first_capacity = 256;
}

std::uint32_t GhostTable::locate(std::uint64_t key) {
  if (size_ == 0) return none;
  std::uint32_t number = chain(key);
  while (number != none && entry(number).key != key) number = entry(number).next;
  return number;
}

void GhostTable::unchain(std::uint32_t number) {
  std::uint32_t* link = &chain(entry(number).key);
  while (*link != number) link = &entry(*link).next;
  *link = entry(number).next;
  entry(number).gone = true;
  --size_;
}

void GhostTable::put(std::uint64_t key, const ReuseState& state) {
  if (next_ - first_ == entries_.size()) grow();
  entry(next_) = {key, state, chain(key), false};
  chain(key) = next_++;
  ++size_;
}

std::optional<ReuseState> GhostTable::take(std::uint64_t key) {
  const std::uint32_t number = locate(key);
  if (number == none) return std::nullopt;
  unchain(number);
  return entry(number).state;
}

std::optional<ReuseState> GhostTable::take_excess() {
  while (size_ > limit_) {
    const std::uint32_t number = first_++;
    if (entry(number).gone) continue;
    unchain(number);
    return entry(number).state;
  }
  return std::nullopt;
}

// Twice the room, or only those that are not gone where they are the fewer.
void GhostTable::grow() {
  std::vector<Entry> kept;
  kept.reserve(size_);
  for (std::uint32_t number = first_; number != next_; ++number)
    if (!entry(number).gone) kept.push_back(entry(number));
  std::size_t capacity = entries_.empty() ? first_capacity : entries_.size();
  if (kept.size() > capacity / 2) capacity *= 2;
  entries_.assign(capacity, {});
  chains_.assign(capacity, none);
  first_ = next_ = 0;
  size_ = 0;
  for (const Entry& one : kept) put(one.key, one.state);
}

}  // namespace terrace::storage
