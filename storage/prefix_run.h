// Prefixes as people look at them: as a tree of runs of blocks, not of single blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/block_key.h"
#include "core/tier.h"
#include "storage/ids.h"

namespace terrace::storage {

// The last block of a prefix: nothing is known below it.
struct PrefixTail {
  BlockKey key;
  std::uint64_t recency = 0;
};

// Blocks one below the other, without a branch among what is shown.
struct PrefixRun {
  std::optional<std::size_t> parent;  // which it goes on from: its place in the list
  SpaceId space_id = 0;
  BlockKey space, first, last;
  std::uint32_t depth = 0;  // of the first block
  std::uint32_t blocks = 0;
  std::vector<Token> tokens;                          // of the first block
  std::array<std::uint32_t, tier_count> blocks_in{};  // how many have a copy in each tier
  std::uint64_t bytes = 0;                            // of the payload of all its blocks
  std::uint64_t recency = 0;                          // of the latest use: ms since 1970
  std::uint32_t holders = 0;                          // the most leases that one of them has
  bool pinned = false;                                // one of them
};

}  // namespace terrace::storage
