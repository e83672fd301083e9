// Which blocks there are: by key, and as trees of prefixes, one forest a space. An entry without
// any copy on this host is a hole: it is there because of its descendants and goes with the last of
// them, or is healed by sealing it again. No holes are the ends of prefixes that only Redis has.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/space.h"
#include "storage/catalog/key_index.h"

namespace terrace::storage {

struct SpaceEntry {
  SpaceId id = 0;
  SpaceDescriptor descriptor;
  BlockKey digest;
  std::uint64_t slot_bytes = 0;  // block_bytes rounded up to pages
  std::uint32_t size_class = 0;  // spaces of the same slot_bytes share it
  TenantId tenant = 0;
  std::uint32_t shelf = 0;           // spaces of the same size class and tenant share it
  Children* first_blocks = nullptr;  // in the catalog's region
  std::uint64_t blocks = 0;          // entries
  std::int64_t max_age_ms = 0;       // of its blocks; 0: any
  bool dropping = false;             // its blocks are on their way out; nobody may use it meanwhile
};

// What may be evicted is sorted by these.
struct Shelf {
  std::uint32_t size_class = 0;
  TenantId tenant = 0;
  bool operator==(const Shelf&) const = default;
};

// Bytes of memory that are really taken, whether a block is in them or was.
struct CatalogMemory {
  std::size_t blocks = 0;
  std::size_t block_bytes = 0;  // of blocks with their tokens, and of the index
  std::size_t token_bytes = 0;  // of those, the tokens
  std::size_t slot_bytes = 0;
  double bytes_per_block() const {
    return blocks == 0
               ? 0
               : static_cast<double>(block_bytes - token_bytes) / static_cast<double>(blocks);
  }
};

class Catalog {
 public:
  // Named limit: spaces are few; a client that makes up thousands is refused.
  static constexpr std::size_t max_spaces = 4096;
  // Likewise the sizes of their slots: choosing a victim looks at all of them.
  static constexpr std::size_t max_size_classes = 64;

  Catalog();
  ~Catalog();
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;

  // The same descriptor (but for its label) gives the same entry. resource_exhausted past one of
  // the limits, or without memory.
  Result<SpaceEntry*> open_space(const SpaceDescriptor& descriptor, TenantId tenant = 0);
  SpaceEntry* space(SpaceId id) { return id < spaces_.size() ? spaces_[id].get() : nullptr; }
  const SpaceEntry* space(SpaceId id) const {
    return id < spaces_.size() ? spaces_[id].get() : nullptr;
  }
  const SpaceEntry* space(const BlockKey& digest) const;
  SpaceEntry* space(const BlockKey& digest);
  const std::vector<std::unique_ptr<SpaceEntry>>& spaces() const { return spaces_; }
  const std::vector<Shelf>& shelves() const { return shelves_; }
  std::size_t size_classes() const { return size_classes_.size(); }
  std::uint64_t slot_bytes(std::uint32_t size_class) const { return size_classes_[size_class]; }

  const KeyIndex& index() const { return index_; }
  Block* find(const BlockKey& key) const { return index_.find(key); }
  // A new entry below `parent` (null: a first block), with as many tokens as the space says. Its
  // key must not be known. Null if there is no more memory, or if it would lie below max_depth.
  Block* insert(SpaceEntry& space, Block* parent, const BlockKey& key,
                std::span<const Token> tokens);
  // Removes an entry that has neither children nor copies.
  void remove(Block& block);

  // Whether a match can reach it on this host: it and every ancestor are in some tier other than
  // Redis. O(1) while there are no holes, else O(depth).
  bool reachable(const Block& block) const;
  // The caller says when an entry becomes a hole or is healed.
  void count_hole(int change) { holes_ += static_cast<std::size_t>(change); }
  std::size_t holes() const { return holes_; }

  // Slots lie near the blocks, since both point to each other.
  Pool& slots() { return slots_; }

  CatalogMemory memory() const;

  // The child of `parent` (null: the first blocks of `space`) kept on this host that shares the
  // most leading tokens with `tokens`, and how many. {null, 0} if none shares any.
  std::pair<const Block*, std::uint32_t> best_partial(const SpaceEntry& space, const Block* parent,
                                                      std::span<const Token> tokens) const;

 private:
  static constexpr std::size_t max_token_count_log2 = std::bit_width(max_block_tokens) - 1;
  static_assert(max_token_count_log2 < 16);  // what a block has room for
  static_assert(max_spaces <= UINT16_MAX + 1);
  // How many neighbours best_partial looks at on each side before it gives up on holes.
  static constexpr int max_holes_skipped = 8;

  Children& siblings_of(const Block& block) {
    return block.parent ? block.parent->children : *spaces_[block.space]->first_blocks;
  }

  Region region_;
  std::array<std::unique_ptr<Pool>, max_token_count_log2 + 1> blocks_;  // by tokens a block
  Pool slots_;
  Pool roots_;  // of the first blocks of spaces
  std::vector<std::unique_ptr<SpaceEntry>> spaces_;
  std::unordered_map<BlockKey, SpaceEntry*> by_digest_;
  std::vector<std::uint64_t> size_classes_;
  std::vector<Shelf> shelves_;
  KeyIndex index_;
  std::size_t holes_ = 0;
};

}  // namespace terrace::storage
