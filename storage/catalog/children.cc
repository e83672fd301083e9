#include <algorithm>
#include <random>

#include "core/bytes.h"
#include "storage/catalog/treap.h"

// A treap as in treap.h, but with links downwards only: trees are split and joined instead of
// rotated.

namespace terrace::storage {

namespace {

// Two children of one parent may have the same tokens under different keys.
bool is_before(const Block& a, const Block& b) {
  const auto order = std::lexicographical_compare_three_way(a.tokens().begin(), a.tokens().end(),
                                                            b.tokens().begin(), b.tokens().end());
  return order != 0 ? order < 0 : a.key < b.key;
}

std::uint64_t secret() {
  static const std::uint64_t value = [] {
    std::random_device random;
    return std::uint64_t{random()} << 32 | random();
  }();
  return value;
}

}  // namespace

std::uint64_t tree_priority(const Block& block) {
  // Of the key's end: its beginning orders the index.
  std::uint64_t mixed =
      (load_le<std::uint64_t>(block.key.bytes.data() + 24) ^ secret()) * 0x9e3779b97f4a7c15u;
  mixed ^= mixed >> 32;
  return mixed * (secret() | 1);
}

void Children::insert(Block& block) {
  const std::uint64_t priority = tree_priority(block);
  ShortPointer<Block>* link = &root_;
  while (*link && priority <= tree_priority(**link))
    link = is_before(block, **link) ? &(*link)->siblings.left : &(*link)->siblings.right;
  // It takes this place; what was below it goes to its left or right.
  Block* rest = *link;
  *link = &block;
  ShortPointer<Block>* left = &block.siblings.left;
  ShortPointer<Block>* right = &block.siblings.right;
  while (rest) {
    if (is_before(*rest, block)) {
      *left = rest;
      left = &rest->siblings.right;
      rest = *left;
    } else {
      *right = rest;
      right = &rest->siblings.left;
      rest = *right;
    }
  }
  *left = nullptr;
  *right = nullptr;
}

void Children::erase(Block& block) {
  ShortPointer<Block>* link = &root_;
  while (*link != &block)
    link = is_before(block, **link) ? &(*link)->siblings.left : &(*link)->siblings.right;
  Block* left = block.siblings.left;
  Block* right = block.siblings.right;
  while (left && right) {
    if (tree_priority(*left) > tree_priority(*right)) {
      *link = left;
      link = &left->siblings.right;
      left = *link;
    } else {
      *link = right;
      link = &right->siblings.left;
      right = *link;
    }
  }
  *link = left ? left : right;
  block.siblings.left = nullptr;
  block.siblings.right = nullptr;
}

Block* Children::first() const {
  Block* at = root_;
  while (at && at->siblings.left) at = at->siblings.left;
  return at;
}

Block* Children::last() const {
  Block* at = root_;
  while (at && at->siblings.right) at = at->siblings.right;
  return at;
}

Block* Children::after(const Block& block) const {
  Block* found = nullptr;
  for (Block* at = root_; at;) {
    if (at != &block && is_before(block, *at)) {
      found = at;
      at = at->siblings.left;
    } else {
      at = at->siblings.right;
    }
  }
  return found;
}

Block* Children::before(const Block& block) const {
  Block* found = nullptr;
  for (Block* at = root_; at;) {
    if (at != &block && is_before(*at, block)) {
      found = at;
      at = at->siblings.right;
    } else {
      at = at->siblings.left;
    }
  }
  return found;
}

std::size_t Children::depth_of(const Block& block) const {
  std::size_t depth = 0;
  for (const Block* at = root_; at != &block; ++depth)
    at = is_before(block, *at) ? at->siblings.left : at->siblings.right;
  return depth;
}

Block* Children::lower_bound(std::span<const Token> tokens) const {
  Block* bound = nullptr;
  for (Block* at = root_; at;) {
    if (std::ranges::lexicographical_compare(at->tokens(), tokens)) {
      at = at->siblings.right;
    } else {
      bound = at;
      at = at->siblings.left;
    }
  }
  return bound;
}

}  // namespace terrace::storage
