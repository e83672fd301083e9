#include <algorithm>
#include <random>

#include "core/bytes.h"
#include "storage/catalog/treap.h"

namespace terrace::storage {

namespace {

struct ByTokens {
  TreeLinks& links(Block& block) const { return block.siblings; }
  // Two children of one parent may have the same tokens under different keys.
  bool before(const Block& a, const Block& b) const {
    const auto order = std::lexicographical_compare_three_way(a.tokens().begin(), a.tokens().end(),
                                                              b.tokens().begin(), b.tokens().end());
    return order != 0 ? order < 0 : a.key < b.key;
  }
};

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

void Children::insert(Block& block) { treap::insert(ByTokens(), root_, block); }
void Children::erase(Block& block) { treap::erase(ByTokens(), root_, block); }
Block* Children::first() const { return treap::first(ByTokens(), root_); }
Block* Children::last() const { return treap::last(ByTokens(), root_); }
Block* Children::after(Block& block) { return treap::next(ByTokens(), block); }
Block* Children::before(Block& block) { return treap::previous(ByTokens(), block); }

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
