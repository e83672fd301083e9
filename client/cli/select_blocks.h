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
  key,      // as the daemon gives them: nothing has to be held
  prefix,   // each prefix from its head to its tail
  size,     // the largest first
  age,      // the longest unused first
  recent,   // the last used first
  depth,    // the deepest first
  holders,  // the most leases first
};
inline constexpr std::pair<const char*, BlockOrder> block_orders[] = {
    {"key", BlockOrder::key},        {"prefix", BlockOrder::prefix}, {"size", BlockOrder::size},
    {"age", BlockOrder::age},        {"recent", BlockOrder::recent}, {"depth", BlockOrder::depth},
    {"holders", BlockOrder::holders}};

// The first blocks of many in an order (other than key and prefix), holding no more than it needs.
class FirstBlocks {
 public:
  // `limit` 0: all of them.
  FirstBlocks(BlockOrder order, std::size_t limit) : order_(order), limit_(limit) {}

  void add(const ListedBlock& block);
  std::uint64_t seen() const { return seen_; }
  // In their order; nothing is left.
  std::vector<ListedBlock> take();

 private:
  const BlockOrder order_;
  const std::size_t limit_;
  std::vector<ListedBlock> heap_;  // the last of them in front
  std::uint64_t seen_ = 0;
};

}  // namespace terrace::cli
