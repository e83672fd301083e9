#include "storage/catalog/catalog.h"

#include <algorithm>
#include <cassert>

#include "core/bytes.h"
#include "storage/arena/slab_arena.h"

namespace terrace::storage {

bool ByTokens::operator()(const Block* a, const Block* b) const {
  return std::ranges::lexicographical_compare(a->tokens, b->tokens);
}
bool ByTokens::operator()(const Block* a, std::span<const Token> b) const {
  return std::ranges::lexicographical_compare(a->tokens, b);
}
bool ByTokens::operator()(std::span<const Token> a, const Block* b) const {
  return std::ranges::lexicographical_compare(a, b->tokens);
}

Catalog::~Catalog() {
  index_.visit_from(BlockKey{}, [](Block& block) {
    delete &block;
    return true;
  });
}

Result<SpaceEntry*> Catalog::open_space(const SpaceDescriptor& descriptor) {
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
  if (size == size_classes_.end()) {
    if (size_classes_.size() >= max_size_classes)
      return error(StatusCode::resource_exhausted,
                   "blocks of more than " + std::to_string(max_size_classes) + " sizes");
    size_classes_.push_back(entry->slot_bytes);
  }
  by_digest_.emplace(digest, entry.get());
  spaces_.push_back(std::move(entry));
  return spaces_.back().get();
}

const SpaceEntry* Catalog::space(const BlockKey& digest) const {
  const auto found = by_digest_.find(digest);
  return found == by_digest_.end() ? nullptr : found->second;
}

Block& Catalog::insert(SpaceEntry& space, Block* parent, const BlockKey& key,
                       std::vector<Token> tokens) {
  auto* block = new Block;
  block->key = key;
  block->parent = parent;
  block->space = space.id;
  block->depth = parent ? parent->depth + 1 : 0;
  block->tokens = std::move(tokens);
  (parent ? parent->children : space.first_blocks).insert(block);
  index_.insert(block);
  return *block;
}

void Catalog::remove(Block& block) {
  assert(block.children.empty() && !block.occupies_anything());
  (block.parent ? block.parent->children : spaces_[block.space]->first_blocks).erase(&block);
  index_.erase(&block);
  delete &block;
}

bool Catalog::reachable(const Block& block) const {
  if (holes_ == 0) return block.present();
  for (const Block* one = &block; one; one = one->parent)
    if (!one->present()) return false;
  return true;
}

std::pair<const Block*, std::uint32_t> Catalog::best_partial(const SpaceEntry& space,
                                                             const Block* parent,
                                                             std::span<const Token> tokens) const {
  const Children& children = parent ? parent->children : space.first_blocks;
  std::pair<const Block*, std::uint32_t> best{nullptr, 0};
  const auto consider = [&](const Block* block) {
    if (!block->present()) return false;
    const auto [mine, theirs] = std::ranges::mismatch(block->tokens, tokens);
    const auto shared = static_cast<std::uint32_t>(mine - block->tokens.begin());
    if (shared > best.second) best = {block, shared};
    return true;
  };
  const auto start = children.lower_bound(tokens);
  int looks = 0;
  for (auto at = start; at != children.end() && looks < max_holes_skipped; ++at, ++looks)
    if (consider(*at)) break;
  looks = 0;
  for (auto at = start; at != children.begin() && looks < max_holes_skipped; ++looks)
    if (consider(*--at)) break;
  return best;
}

}  // namespace terrace::storage
