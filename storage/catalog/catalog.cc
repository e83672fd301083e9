#include "storage/catalog/catalog.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <new>
#include <type_traits>

#include "core/bytes.h"
#include "storage/arena/slab_arena.h"

namespace terrace::storage {

// Blocks own nothing: they go with the region.
static_assert(std::is_trivially_destructible_v<Block>);

Catalog::Catalog()
    : slots_(region_, sizeof(Slot)), roots_(region_, sizeof(Children)), index_(region_) {}
Catalog::~Catalog() = default;

Result<SpaceEntry*> Catalog::open_space(const SpaceDescriptor& descriptor, TenantId tenant) {
  if (Status status = descriptor.validate(); !status.ok()) return error(std::move(status));
  const BlockKey digest = descriptor.digest();
  if (const auto found = by_digest_.find(digest); found != by_digest_.end()) return found->second;
  if (spaces_.size() >= max_spaces)
    return error(StatusCode::resource_exhausted,
                 "more than " + std::to_string(max_spaces) + " spaces");
  auto entry = std::make_unique<SpaceEntry>();
  entry->id = static_cast<SpaceId>(spaces_.size());
  entry->descriptor = descriptor;
  entry->digest = digest;
  entry->slot_bytes = round_up(descriptor.block_bytes, slot_alignment_bytes);
  const auto size = std::ranges::find(size_classes_, entry->slot_bytes);
  entry->size_class = static_cast<std::uint32_t>(size - size_classes_.begin());
  void* const root = roots_.allocate();
  if (!root) return error(StatusCode::resource_exhausted, "no memory for another space");
  entry->first_blocks = new (root) Children;
  if (size == size_classes_.end()) {
    if (size_classes_.size() >= max_size_classes)
      return error(StatusCode::resource_exhausted,
                   "blocks of more than " + std::to_string(max_size_classes) + " sizes");
    size_classes_.push_back(entry->slot_bytes);
  }
  entry->tenant = tenant;
  const Shelf shelf{entry->size_class, tenant};
  entry->shelf = static_cast<std::uint32_t>(std::ranges::find(shelves_, shelf) - shelves_.begin());
  if (entry->shelf == shelves_.size()) shelves_.push_back(shelf);
  by_digest_.emplace(digest, entry.get());
  spaces_.push_back(std::move(entry));
  return spaces_.back().get();
}

const SpaceEntry* Catalog::space(const BlockKey& digest) const {
  const auto found = by_digest_.find(digest);
  return found == by_digest_.end() ? nullptr : found->second;
}

SpaceEntry* Catalog::space(const BlockKey& digest) {
  return const_cast<SpaceEntry*>(std::as_const(*this).space(digest));
}

Block* Catalog::insert(SpaceEntry& space, Block* parent, const BlockKey& key,
                       std::span<const Token> tokens) {
  assert(tokens.size() == space.descriptor.block_tokens);
  if (parent && parent->depth == max_depth) return nullptr;
  const auto log2 = static_cast<std::size_t>(std::countr_zero(space.descriptor.block_tokens));
  auto& pool = blocks_[log2];
  if (!pool) pool = std::make_unique<Pool>(region_, sizeof(Block) + tokens.size_bytes());
  void* const place = pool->allocate();
  if (!place) return nullptr;
  auto* const block = new (place) Block;
  block->key = key;
  block->space = static_cast<std::uint16_t>(space.id);
  ++space.blocks;
  block->token_count_log2 = static_cast<std::uint8_t>(log2 & 15);
  std::ranges::copy(tokens, block->tokens().begin());
  if (parent) block->depth = (parent->depth + 1) & max_depth;
  block->parent = parent;
  siblings_of(*block).insert(*block);
  index_.insert(block);
  return block;
}

void Catalog::remove(Block& block) {
  assert(block.children.empty() && !block.occupies_anything());
  siblings_of(block).erase(block);
  --spaces_[block.space]->blocks;
  index_.erase(&block);
  blocks_[block.token_count_log2]->free(&block);
}

CatalogMemory Catalog::memory() const {
  CatalogMemory memory;
  memory.blocks = index_.size();
  memory.block_bytes = index_.bytes();
  memory.slot_bytes = slots_.bytes();
  for (std::size_t log2 = 0; log2 < blocks_.size(); ++log2) {
    if (!blocks_[log2]) continue;
    memory.block_bytes += blocks_[log2]->bytes();
    memory.token_bytes += blocks_[log2]->used() * (sizeof(Token) << log2);
  }
  return memory;
}

bool Catalog::reachable(const Block& block) const {
  if (holes_ == 0) return block.kept();
  for (const Block* one = &block; one; one = one->parent)
    if (!one->kept()) return false;
  return true;
}

std::pair<const Block*, std::uint32_t> Catalog::best_partial(const SpaceEntry& space,
                                                             const Block* parent,
                                                             std::span<const Token> tokens) const {
  const Children& children = parent ? parent->children : *space.first_blocks;
  std::pair<const Block*, std::uint32_t> best{nullptr, 0};
  const auto consider = [&](const Block* block) {
    if (!block->kept()) return false;
    const auto mine = block->tokens();
    const auto shared =
        static_cast<std::uint32_t>(std::ranges::mismatch(mine, tokens).in1 - mine.begin());
    if (shared > best.second) best = {block, shared};
    return true;
  };
  Block* const start = children.lower_bound(tokens);
  int looks = 0;
  for (Block* at = start; at && looks < max_holes_skipped; at = children.after(*at), ++looks)
    if (consider(at)) break;
  looks = 0;
  Block* at = start ? children.before(*start) : children.last();
  for (; at && looks < max_holes_skipped; at = children.before(*at), ++looks)
    if (consider(at)) break;
  return best;
}

}  // namespace terrace::storage
