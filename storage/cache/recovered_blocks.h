// The blocks that the disk knew at start, by their parents. A start after years has millions: one
// table of 4 bytes an entry instead of a map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "storage/disk/disk_tier.h"

namespace terrace::storage {

class RecoveredBlocks {
 public:
  // Works out on several threads which keys are those of their blocks.
  explicit RecoveredBlocks(std::vector<RecoveredBlock> blocks);

  std::size_t size() const { return blocks_.size(); }
  const RecoveredBlock& operator[](std::size_t index) const { return blocks_[index]; }
  // Whether the key is that of the tokens below the parent. What does not agree with itself is not
  // believed.
  bool agrees(std::size_t index) const { return agrees_[index] != 0; }

  // Asks for the memory of the blocks that come some way behind this one: they lie about in the
  // order in which they were written, and so are taken about in this order.
  void prefetch_behind(std::size_t index) const;

  // Calls `visit(index)` for each block that names this parent.
  template <typename Visit>
  void children(const BlockKey& parent, Visit visit) const {
    if (heads_.empty()) return;
    for (std::uint32_t at = heads_[place_of(parent)]; at != none; at = next_[at])
      if (blocks_[at].parent == parent) visit(std::size_t{at});
  }

 private:
  static constexpr std::uint32_t none = UINT32_MAX;

  std::size_t place_of(const BlockKey& parent) const {
    return std::hash<BlockKey>()(parent) & (heads_.size() - 1);
  }
  void check(std::size_t first, std::size_t end);

  std::vector<RecoveredBlock> blocks_;
  std::vector<std::uint8_t> agrees_;  // a byte each: several threads write
  std::vector<std::uint32_t> heads_;  // of lists of those whose parents' keys begin alike
  std::vector<std::uint32_t> next_;
};

}  // namespace terrace::storage
