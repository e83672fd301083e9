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
  std::uint32_t uses = 0;     // requests, the one that computed it among them
  std::int64_t created_unix_ms = 0;
  std::vector<Token> token_ids;
};

struct Listing {
  std::vector<ListedBlock> blocks;
  std::unordered_map<BlockKey, std::string> space_labels;  // by digest
  bool complete = true;  // false: there are more blocks than these
};

// Orders blocks by space, then each prefix from its head to its tail, a block before what follows
// it. A block whose parent is not among them begins a prefix of its own.
void sort_by_prefix(std::vector<ListedBlock>& blocks);

// A table for people, with a heading a space, of the first `limit` blocks (0: all).
void print_listing(const Listing& listing, std::size_t limit, std::ostream& out);

using SpaceLabels = std::unordered_map<BlockKey, std::string>;  // by digest

// Rows one after the other, so that nobody has to hold them all.
class BlockRows {
 public:
  virtual ~BlockRows() = default;
  virtual void add(const ListedBlock& block) = 0;
  // `left_out`: how many blocks more there are, if it is known.
  virtual void end(std::uint64_t left_out) = 0;
};

// A table with the space in each row. `out` and `labels` outlive it. `now_unix_ms` is what ages
// count from.
class TableRows final : public BlockRows {
 public:
  TableRows(std::int64_t now_unix_ms, const SpaceLabels& labels, std::ostream& out)
      : now_unix_ms_(now_unix_ms), labels_(labels), out_(out) {}
  void add(const ListedBlock& block) override;
  void end(std::uint64_t left_out) override;

 private:
  const std::int64_t now_unix_ms_;
  const SpaceLabels& labels_;
  std::ostream& out_;
  std::uint64_t rows_ = 0;
};

// One JSON array with an object a block, a line each.
class JsonRows final : public BlockRows {
 public:
  JsonRows(const SpaceLabels& labels, std::ostream& out) : labels_(labels), out_(out) {}
  void add(const ListedBlock& block) override;
  void end(std::uint64_t left_out) override;

 private:
  const SpaceLabels& labels_;
  std::ostream& out_;
  std::uint64_t rows_ = 0;
};

}  // namespace terrace::cli
