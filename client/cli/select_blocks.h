// Which blocks `terrace ls` shows, and in what order.
#pragma once

#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "client/cli/listing.h"

namespace terrace::cli {

struct BlockFilter {
  std::optional<Tier> tier;   // with a copy there
  std::set<BlockKey> spaces;  // none: of any
  std::uint32_t min_depth = 0;
  bool held = false;  // by a lease

  bool takes(const ListedBlock& block) const;
};

enum class BlockOrder {
  key,       // as the daemon gives them: nothing has to be held
  prefix,    // each prefix from its head to its tail
  hits,      // the most used first
  age,       // the oldest first
  size,      // the largest first
  last_use,  // the last used first
  depth,     // the deepest first
  holders,   // the most leases first
};
inline constexpr std::pair<const char*, BlockOrder> block_orders[] = {
    {"key", BlockOrder::key},     {"prefix", BlockOrder::prefix},
    {"hits", BlockOrder::hits},   {"age", BlockOrder::age},
    {"size", BlockOrder::size},   {"last-use", BlockOrder::last_use},
    {"depth", BlockOrder::depth}, {"holders", BlockOrder::holders}};

// The first blocks of many in an order (other than key and prefix), holding no more than it needs.
class FirstBlocks {
 public:
  // `limit` 0: all of them. `reverse`: the last of that order come first.
  FirstBlocks(BlockOrder order, bool reverse, std::size_t limit)
      : order_(order), reverse_(reverse), limit_(limit) {}

  void add(const ListedBlock& block);
  std::uint64_t seen() const { return seen_; }
  // In their order; nothing is left.
  std::vector<ListedBlock> take();

 private:
  const BlockOrder order_;
  const bool reverse_;
  const std::size_t limit_;
  std::vector<ListedBlock> heap_;  // the last of them in front
  std::uint64_t seen_ = 0;
};

}  // namespace terrace::cli
