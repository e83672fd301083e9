// The blocks of one tier that may go, by cells: finds the oldest of the cell that is worth the
// least, and the oldest of all, in about the time of a few words' scan, and moves blocks from age
// to age in constant time each.
//
// There is a list for each request that is remembered, of what it used last; mostly one block, the
// tail of what is left of its prompt. Bitmaps say which requests have blocks of a class.
//
// `Access` says where things are in a node:
//   Links& links(Node&) const;                  // two links `left` and `right`, of pointers
//   ReuseState state(const Node&) const;        // does not change while the node is in
//   std::uint32_t depth(const Node&) const;
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "storage/policy/reuse_model.h"

namespace terrace::storage {

template <typename Node, typename Access, typename Pointer = Node*>
class ReuseOrder {
 public:
  // The model must outlive it.
  explicit ReuseOrder(const ReuseModel& model, Access access = {})
      : model_(model), access_(access), heads_(remembered_requests), sizes_(remembered_requests) {}

  // Follows the model's time, and calls `forgotten(Node&)` for each node whose request is no longer
  // remembered, which is then out. Comes before any other call after time went on.
  template <typename Forgotten>
  void advance(Forgotten forgotten);

  // Its request is remembered.
  void insert(Node& node);
  void erase(Node& node);
  std::size_t size() const { return size_; }

  // Null if empty. Among blocks of one request the deepest comes first.
  Node* oldest() const;
  Node* lowest();

 private:
  static constexpr std::size_t words = remembered_requests / 64;
  using Bits = std::array<std::uint64_t, words>;
  // One request has many blocks here only if a client uses branches of a tree together. Then those
  // far down its list are found late.
  static constexpr int longest_walk = 64;

  static std::size_t place(RequestNumber request) { return request % remembered_requests; }
  static void set(std::uint64_t* bits, std::size_t at) { bits[at / 64] |= 1ull << (at % 64); }
  static void clear(std::uint64_t* bits, std::size_t at) { bits[at / 64] &= ~(1ull << (at % 64)); }
  static bool test(const std::uint64_t* bits, std::size_t at) {
    return (bits[at / 64] >> (at % 64)) & 1;
  }
  // The first place whose bit is set of `count` from that of `request` on, around the end.
  static std::size_t first_set(const Bits& bits, RequestNumber request, std::uint32_t count);

  unsigned class_at(const Node& node, std::size_t at) const {
    const ReuseState state = access_.state(node);
    return class_of(use_group(state.uses), state.last, sizes_[at]);
  }
  void count(unsigned cell, int change);
  void file(const Node& node, std::size_t at, unsigned bucket);
  void unfile(const Node& node, std::size_t at, unsigned bucket);
  // A request has no nodes any more.
  void empty(std::size_t at);
  template <typename Forgotten>
  void forget(std::size_t at, unsigned bucket, Forgotten forgotten);
  // Files a request's nodes anew if the number of its new blocks has changed.
  void refile(std::size_t at, unsigned bucket);

  const ReuseModel& model_;
  Access access_;
  RequestNumber time_ = 0;
  std::size_t size_ = 0;
  std::vector<Pointer> heads_;       // of the list of each request
  std::vector<std::uint8_t> sizes_;  // of the request, as its nodes are filed
  Bits filled_{};                    // requests that have nodes
  Bits stale_{};                     // and may have bits of classes that they have no nodes of
  std::array<std::unique_ptr<Bits>, reuse_classes> by_class_;  // that have nodes of a class
  std::array<std::uint32_t, reuse_cells> counts_{};
  std::array<std::uint64_t, (reuse_cells + 63) / 64> ranks_{};  // cells with nodes, by rank
  std::uint64_t ranks_version_ = 0;                             // of the index; 0: none
};

template <typename Node, typename Access, typename Pointer>
void ReuseOrder<Node, Access, Pointer>::count(unsigned cell, int change) {
  const std::uint32_t was = counts_[cell];
  counts_[cell] += static_cast<std::uint32_t>(change);
  if (ranks_version_ != model_.index().version() || (was == 0) == (counts_[cell] == 0)) return;
  const std::size_t rank = model_.index().rank(cell);
  was == 0 ? set(ranks_.data(), rank) : clear(ranks_.data(), rank);
}

template <typename Node, typename Access, typename Pointer>
void ReuseOrder<Node, Access, Pointer>::file(const Node& node, std::size_t at, unsigned bucket) {
  const unsigned c = class_at(node, at);
  if (!by_class_[c]) by_class_[c] = std::make_unique<Bits>();
  set(by_class_[c]->data(), at);
  count(cell_of(c, bucket), 1);
}

// The node is no longer in the list of its request.
template <typename Node, typename Access, typename Pointer>
void ReuseOrder<Node, Access, Pointer>::unfile(const Node& node, std::size_t at, unsigned bucket) {
  const unsigned c = class_at(node, at);
  count(cell_of(c, bucket), -1);
  int steps = 0;
  for (Node* other = heads_[at]; other; other = access_.links(*other).right) {
    if (class_at(*other, at) == c) return;
    if (++steps < longest_walk) continue;
    set(stale_.data(), at);  // the bit stays, for the worse of the guess at most
    return;
  }
  clear(by_class_[c]->data(), at);
}

template <typename Node, typename Access, typename Pointer>
void ReuseOrder<Node, Access, Pointer>::empty(std::size_t at) {
  clear(filled_.data(), at);
  if (!test(stale_.data(), at)) return;
  clear(stale_.data(), at);
  for (const auto& bits : by_class_)
    if (bits) clear(bits->data(), at);
}

template <typename Node, typename Access, typename Pointer>
void ReuseOrder<Node, Access, Pointer>::refile(std::size_t at, unsigned bucket) {
  const auto size = static_cast<std::uint8_t>(model_.size_of(static_cast<RequestNumber>(at)));
  if (sizes_[at] == size) return;
  for (Node* node = heads_[at]; node; node = access_.links(*node).right) {
    const unsigned c = class_at(*node, at);
    count(cell_of(c, bucket), -1);
    clear(by_class_[c]->data(), at);
  }
  sizes_[at] = size;
  for (Node* node = heads_[at]; node; node = access_.links(*node).right) file(*node, at, bucket);
}

template <typename Node, typename Access, typename Pointer>
template <typename Forgotten>
void ReuseOrder<Node, Access, Pointer>::forget(std::size_t at, unsigned bucket,
                                               Forgotten forgotten) {
  for (Node* node = heads_[at]; node; node = heads_[at]) {
    heads_[at] = access_.links(*node).right;
    const unsigned c = class_at(*node, at);
    count(cell_of(c, bucket), -1);
    clear(by_class_[c]->data(), at);
    --size_;
    forgotten(*node);
  }
  empty(at);
}

template <typename Node, typename Access, typename Pointer>
template <typename Forgotten>
void ReuseOrder<Node, Access, Pointer>::advance(Forgotten forgotten) {
  if (model_.age(time_) >= remembered_requests) {
    // All of them at once, the least recent first.
    for (std::uint32_t age = remembered_requests; size_ > 0 && age-- > 0;)
      if (const std::size_t at = place(time_ - age); heads_[at])
        forget(at, age_bucket(age), forgotten);
  }
  if (size_ == 0) time_ = model_.now();
  while (time_ != model_.now()) {
    ++time_;
    for (unsigned b = 1; b <= age_buckets; ++b) {
      const std::size_t at = place(time_ - age_edges[b]);
      if (!test(filled_.data(), at)) continue;
      if (b == age_buckets) {
        forget(at, b - 1, forgotten);
        continue;
      }
      refile(at, b - 1);
      for (Node* node = heads_[at]; node; node = access_.links(*node).right) {
        const unsigned c = class_at(*node, at);
        count(cell_of(c, b - 1), -1);
        count(cell_of(c, b), 1);
      }
    }
  }
}

template <typename Node, typename Access, typename Pointer>
void ReuseOrder<Node, Access, Pointer>::insert(Node& node) {
  const RequestNumber request = access_.state(node).request;
  assert(time_ == model_.now() || size_ == 0);
  time_ = model_.now();
  const std::size_t at = place(request);
  const unsigned bucket = age_bucket(time_ - request);
  if (heads_[at])
    refile(at, bucket);
  else
    sizes_[at] = static_cast<std::uint8_t>(model_.size_of(request));
  Node* before = nullptr;
  Node* behind = heads_[at];
  for (int steps = 0;
       behind && access_.depth(*behind) > access_.depth(node) && steps < longest_walk; ++steps) {
    before = behind;
    behind = access_.links(*behind).right;
  }
  auto& links = access_.links(node);
  links.left = before;
  links.right = behind;
  if (behind) access_.links(*behind).left = &node;
  if (before)
    access_.links(*before).right = &node;
  else
    heads_[at] = &node;
  set(filled_.data(), at);
  file(node, at, bucket);
  ++size_;
}

template <typename Node, typename Access, typename Pointer>
void ReuseOrder<Node, Access, Pointer>::erase(Node& node) {
  const RequestNumber request = access_.state(node).request;
  const std::size_t at = place(request);
  auto& links = access_.links(node);
  Node* const before = links.left;
  Node* const behind = links.right;
  if (before)
    access_.links(*before).right = behind;
  else
    heads_[at] = behind;
  if (behind) access_.links(*behind).left = before;
  unfile(node, at, age_bucket(time_ - request));
  if (!heads_[at]) empty(at);
  --size_;
}

template <typename Node, typename Access, typename Pointer>
std::size_t ReuseOrder<Node, Access, Pointer>::first_set(const Bits& bits, RequestNumber request,
                                                         std::uint32_t count) {
  std::size_t at = place(request);
  while (count > 0) {
    const std::size_t in_word = std::min<std::size_t>(64 - at % 64, count);
    const std::uint64_t word = bits[at / 64] >> (at % 64);
    if (word != 0 && static_cast<std::size_t>(std::countr_zero(word)) < in_word)
      return at + static_cast<std::size_t>(std::countr_zero(word));
    count -= static_cast<std::uint32_t>(in_word);
    at = (at + in_word) % remembered_requests;
  }
  return remembered_requests;
}

template <typename Node, typename Access, typename Pointer>
Node* ReuseOrder<Node, Access, Pointer>::oldest() const {
  if (size_ == 0) return nullptr;
  return heads_[first_set(filled_, time_ - (remembered_requests - 1), remembered_requests)];
}

template <typename Node, typename Access, typename Pointer>
Node* ReuseOrder<Node, Access, Pointer>::lowest() {
  if (size_ == 0) return nullptr;
  const ReuseIndex& index = model_.index();
  if (ranks_version_ != index.version()) {
    ranks_version_ = index.version();
    ranks_.fill(0);
    for (unsigned cell = 0; cell < reuse_cells; ++cell)
      if (counts_[cell] != 0) set(ranks_.data(), index.rank(cell));
  }
  std::size_t word = 0;
  while (ranks_[word] == 0) ++word;
  const unsigned cell = index.cell_at(
      static_cast<unsigned>(word * 64 + static_cast<std::size_t>(std::countr_zero(ranks_[word]))));
  const unsigned c = cell / age_buckets, b = cell % age_buckets;
  const std::uint32_t youngest = b == 0 ? 0 : age_edges[b];
  const std::size_t at =
      first_set(*by_class_[c], time_ - (age_edges[b + 1] - 1), age_edges[b + 1] - youngest);
  assert(at < remembered_requests);
  Node* node = heads_[at];
  for (int steps = 0; class_at(*node, at) != c; ++steps) {
    Node* const next = access_.links(*node).right;
    if (!next || steps == longest_walk) return heads_[at];
    node = next;
  }
  return node;
}

}  // namespace terrace::storage
