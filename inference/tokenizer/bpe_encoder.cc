#include "inference/tokenizer/bpe_encoder.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>

#include "inference/tokenizer/pre_tokenizer.h"

namespace terrace::tokenizer {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
constexpr Symbol kMerged = -1;
// Places in a piece are 32 bits wide: a longer one is cut.
constexpr std::size_t kMaxPieceBytes = std::size_t{1} << 30;

struct Node {
  Symbol symbol;  // kMerged once it is part of a node to the left
  std::uint32_t previous, next;
};

struct Candidate {
  std::uint32_t rank, left;
  Symbol left_symbol, right_symbol, product;

  // Of a heap, whose top is the greatest: lowest rank first, then leftmost.
  bool operator<(const Candidate& other) const {
    return std::tie(rank, left) > std::tie(other.rank, other.left);
  }
};

}  // namespace

struct BpeEncoder::Scratch {
  std::vector<Node> nodes;
  std::vector<Candidate> heap;
};

Result<std::unique_ptr<BpeEncoder>> BpeEncoder::create(const Vocabulary& vocabulary,
                                                       const TokenTable& table) {
  auto merges = MergeTable::create(vocabulary.merges, table);
  if (!merges) return error(merges.error());
  return std::unique_ptr<BpeEncoder>(new BpeEncoder(vocabulary.scheme, std::move(*merges), table));
}

void BpeEncoder::encode(std::string_view text, bool /*opens*/, std::vector<Token>& ids) const {
  const bool whole_pieces = scheme_ == Scheme::llama_bpe;
  std::vector<std::string_view> pieces;
  if (whole_pieces) {
    pre_tokenize_llama3(text, pieces);
  } else {
    pre_tokenize_smollm(text, pieces);
  }
  Scratch scratch;
  for (std::string_view piece : pieces) {
    if (whole_pieces) {
      if (const auto id = table_.find(piece); id && table_.is_plain(*id)) {
        ids.push_back(*id);
        continue;
      }
    }
    for (; piece.size() > kMaxPieceBytes; piece.remove_prefix(kMaxPieceBytes)) {
      merge(piece.substr(0, kMaxPieceBytes), scratch, ids);
    }
    merge(piece, scratch, ids);
  }
}

void BpeEncoder::merge(std::string_view piece, Scratch& scratch, std::vector<Token>& ids) const {
  std::vector<Node>& nodes = scratch.nodes;
  std::vector<Candidate>& heap = scratch.heap;
  const auto size = static_cast<std::uint32_t>(piece.size());
  nodes.clear();
  heap.clear();
  for (std::uint32_t i = 0; i < size; ++i) {
    nodes.push_back({merges_.of_byte(static_cast<unsigned char>(piece[i])), i == 0 ? kNone : i - 1,
                     i + 1 == size ? kNone : i + 1});
  }
  for (std::uint32_t i = 0; i + 1 < size; ++i) queue_pair(i, scratch);

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const Candidate best = heap.back();
    heap.pop_back();
    Node& left = nodes[best.left];
    // Stale where one of the two has become part of something else since.
    if (left.symbol != best.left_symbol || left.next == kNone ||
        nodes[left.next].symbol != best.right_symbol) {
      continue;
    }
    Node& right = nodes[left.next];
    left.symbol = best.product;
    right.symbol = kMerged;
    left.next = right.next;
    if (left.next != kNone) {
      nodes[left.next].previous = best.left;
      queue_pair(best.left, scratch);
    }
    if (left.previous != kNone) queue_pair(left.previous, scratch);
  }

  for (std::uint32_t i = 0; i != kNone && i < size; i = nodes[i].next) {
    append_symbol(nodes[i].symbol, ids);
  }
}

void BpeEncoder::queue_pair(std::uint32_t left, Scratch& scratch) const {
  const Node& node = scratch.nodes[left];
  const Symbol right = scratch.nodes[node.next].symbol;
  const Merge* const merge = merges_.find(node.symbol, right);
  if (merge == nullptr) return;
  scratch.heap.push_back({merge->rank, left, node.symbol, right, merge->product});
  std::push_heap(scratch.heap.begin(), scratch.heap.end());
}

void BpeEncoder::append_symbol(Symbol symbol, std::vector<Token>& ids) const {
  if (table_.contains(symbol) && table_.is_plain(symbol)) {
    ids.push_back(symbol);
    return;
  }
  // Merged into the text of a special token, which plain text must not become. Every part is
  // shorter than what it is part of, so this ends.
  if (const MergeTable::Parts* const parts = merges_.parts(symbol)) {
    append_symbol(parts->left, ids);
    append_symbol(parts->right, ids);
  }
}

}  // namespace terrace::tokenizer
