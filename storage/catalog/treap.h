// Balanced search trees whose nodes are blocks and whose links lie in the blocks or their slots.
// Balance comes from a priority that is made of the block's key and of a secret, so that nobody can
// choose tokens that make a tree deep.
//
// `Access` says where the links of a tree are and what its order is:
//   TreeLinks& links(Block& block) const;
//   bool before(const Block& a, const Block& b) const;  // a strict order, unique for each block
// `Root` is a Block* or a ShortPointer<Block>, null for an empty tree.
#pragma once

#include <cstdint>

#include "storage/catalog/block.h"

namespace terrace::storage {

// The same for a block as long as the program runs.
std::uint64_t tree_priority(const Block& block);

namespace treap {

template <typename Access, typename Root>
void replace_child(const Access& access, Root& root, Block* parent, const Block* was, Block* now) {
  if (!parent)
    root = now;
  else if (TreeLinks& links = access.links(*parent); links.left == was)
    links.left = now;
  else
    links.right = now;
}

// Puts `block` in the place of its parent.
template <typename Access, typename Root>
void rotate_up(const Access& access, Root& root, Block& block) {
  TreeLinks& links = access.links(block);
  Block* const parent = links.parent;
  TreeLinks& parent_links = access.links(*parent);
  Block* const above = parent_links.parent;
  Block* moved;
  if (parent_links.left == &block) {
    moved = links.right;
    parent_links.left = moved;
    links.right = parent;
  } else {
    moved = links.left;
    parent_links.right = moved;
    links.left = parent;
  }
  if (moved) access.links(*moved).parent = parent;
  parent_links.parent = &block;
  links.parent = above;
  replace_child(access, root, above, parent, &block);
}

template <typename Access, typename Root>
void insert(const Access& access, Root& root, Block& block) {
  Block* parent = nullptr;
  bool left = false;
  for (Block* at = root; at;) {
    parent = at;
    left = access.before(block, *at);
    const TreeLinks& links = access.links(*at);
    at = left ? links.left : links.right;
  }
  TreeLinks& links = access.links(block);
  links.left = links.right = nullptr;
  links.parent = parent;
  if (!parent) {
    root = &block;
    return;
  }
  TreeLinks& parent_links = access.links(*parent);
  (left ? parent_links.left : parent_links.right) = &block;
  const std::uint64_t priority = tree_priority(block);
  while (links.parent && priority > tree_priority(*links.parent)) rotate_up(access, root, block);
}

// `block` is in the tree.
template <typename Access, typename Root>
void erase(const Access& access, Root& root, Block& block) {
  TreeLinks& links = access.links(block);
  while (links.left && links.right) {
    const bool left = tree_priority(*links.left) > tree_priority(*links.right);
    rotate_up(access, root, left ? *links.left : *links.right);
  }
  Block* const child = links.left ? links.left : links.right;
  Block* const parent = links.parent;
  if (child) access.links(*child).parent = parent;
  replace_child(access, root, parent, &block, child);
  links.parent = links.left = links.right = nullptr;
}

// Null for an empty tree.
template <typename Access>
Block* first(const Access& access, Block* root) {
  if (root)
    while (Block* const left = access.links(*root).left) root = left;
  return root;
}
template <typename Access>
Block* last(const Access& access, Block* root) {
  if (root)
    while (Block* const right = access.links(*root).right) root = right;
  return root;
}

// The one after `block` in the order, null after the last.
template <typename Access>
Block* next(const Access& access, Block& block) {
  if (Block* const right = access.links(block).right) return first(access, right);
  Block* at = &block;
  Block* above = access.links(*at).parent;
  while (above && access.links(*above).right == at) {
    at = above;
    above = access.links(*at).parent;
  }
  return above;
}
template <typename Access>
Block* previous(const Access& access, Block& block) {
  if (Block* const left = access.links(block).left) return last(access, left);
  Block* at = &block;
  Block* above = access.links(*at).parent;
  while (above && access.links(*above).left == at) {
    at = above;
    above = access.links(*at).parent;
  }
  return above;
}

}  // namespace treap
}  // namespace terrace::storage
