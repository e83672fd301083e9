// `terrace ls`: blocks in the order of the prefixes that they belong to.
#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/block_key.h"
#include "core/space.h"
#include "core/tier.h"

namespace terrace::cli {

struct ListedBlock {
  BlockKey space, key, parent;
  std::uint32_t depth = 0;  // 0 for a first block
  std::uint32_t tokens = 0;
  std::array<bool, tier_count> tiers{};
  std::uint64_t bytes = 0;
  std::uint32_t holders = 0;
  std::uint64_t recency = 0;  // of its last use: about milliseconds since 1970
  std::vector<Token> token_ids;
};

struct Listing {
  std::vector<ListedBlock> blocks;
  std::unordered_map<BlockKey, std::string> space_labels;  // by digest
  bool complete = true;  // false: there are more blocks than these
};

// Without control characters: what a client or a server said must not command a terminal.
std::string printable(std::string text);

// Orders blocks by space, then each prefix from its head to its tail, a block before what follows
// it. A block whose parent is not among them begins a prefix of its own.
void sort_by_prefix(std::vector<ListedBlock>& blocks);

// A table for people, of the first `limit` blocks (0: all).
void print_listing(const Listing& listing, std::size_t limit, std::ostream& out);

// One JSON array with an object a block, of the first `limit` blocks (0: all).
void print_listing_json(const Listing& listing, std::size_t limit, std::ostream& out);

}  // namespace terrace::cli
