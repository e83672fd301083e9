#include "inference/tokenizer/sentencepiece_encoder.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "inference/tokenizer/character.h"

namespace terrace::tokenizer {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t kSpaceMark = 0x2581;
// Places in a piece are 32 bits wide: a longer one is cut.
constexpr std::size_t kMaxPieceBytes = std::size_t{1} << 30;

struct Node {
  std::uint32_t begin, bytes;  // 0 bytes once it is part of a node to the left
  std::uint32_t previous, next;
};

// The next space behind a character that is none, at or behind `offset`; npos if there is none.
std::size_t find_word_start(std::string_view text, std::size_t offset) {
  for (;;) {
    offset = text.find(' ', offset);
    if (offset == std::string_view::npos || (offset > 0 && text[offset - 1] != ' ')) return offset;
    ++offset;
  }
}

bool are_words_apart(const TokenTable& table) {
  for (Token id = 0; table.contains(id); ++id) {
    const bool spans = find_word_start(table.bytes(id), 0) != std::string_view::npos;
    if (table.is_plain(id) && spans) return false;
  }
  return true;
}

struct Candidate {
  float score;
  std::uint32_t left, left_bytes, right_bytes;

  // Of a heap, whose top is the greatest: highest score first, then leftmost.
  bool operator<(const Candidate& other) const {
    return score < other.score || (score == other.score && left > other.left);
  }
};

}  // namespace

struct SentencePieceEncoder::Scratch {
  std::string_view text;
  std::vector<Node> nodes;
  std::vector<Candidate> heap;
};

SentencePieceEncoder::SentencePieceEncoder(const Vocabulary& vocabulary, const TokenTable& table)
    : table_(table),
      scores_(vocabulary.scores),
      unknown_(vocabulary.unknown),
      adds_space_prefix_(vocabulary.adds_space_prefix),
      words_are_apart_(are_words_apart(table)) {}

void SentencePieceEncoder::encode(std::string_view text, bool opens,
                                  std::vector<Token>& ids) const {
  // The table's bytes have spaces where SentencePiece writes U+2581; to it the two are the same.
  std::string spaced;
  spaced.reserve(text.size() + 1);
  if (opens && adds_space_prefix_) spaced.push_back(' ');
  for (std::size_t offset = 0; offset < text.size();) {
    const Character character = character_at(text, offset);
    if (character.code == kSpaceMark) {
      spaced.push_back(' ');
    } else {
      spaced.append(text.substr(offset, character.bytes));
    }
    offset += character.bytes;
  }

  Scratch scratch;
  const std::string_view all = spaced;
  for (std::size_t begin = 0; begin < all.size();) {
    std::size_t end = words_are_apart_ ? find_word_start(all, begin + 1) : all.size();
    end = std::min({end, all.size(), begin + kMaxPieceBytes});
    merge(all.substr(begin, end - begin), scratch, ids);
    begin = end;
  }
}

void SentencePieceEncoder::merge(std::string_view text, Scratch& scratch,
                                 std::vector<Token>& ids) const {
  scratch.text = text;
  std::vector<Node>& nodes = scratch.nodes;
  std::vector<Candidate>& heap = scratch.heap;
  nodes.clear();
  heap.clear();
  for (std::uint32_t offset = 0; offset < text.size();) {
    const auto bytes = static_cast<std::uint32_t>(character_at(text, offset).bytes);
    const auto index = static_cast<std::uint32_t>(nodes.size());
    nodes.push_back({offset, bytes, index == 0 ? kNone : index - 1,
                     offset + bytes < text.size() ? index + 1 : kNone});
    offset += bytes;
  }
  for (std::uint32_t i = 0; i + 1 < nodes.size(); ++i) queue_pair(i, scratch);

  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end());
    const Candidate best = heap.back();
    heap.pop_back();
    Node& left = nodes[best.left];
    // Stale where one of the two has become part of something else since.
    if (left.bytes != best.left_bytes || left.next == kNone ||
        nodes[left.next].bytes != best.right_bytes) {
      continue;
    }
    Node& right = nodes[left.next];
    left.bytes += right.bytes;
    right.bytes = 0;
    left.next = right.next;
    if (left.next != kNone) {
      nodes[left.next].previous = best.left;
      queue_pair(best.left, scratch);
    }
    if (left.previous != kNone) queue_pair(left.previous, scratch);
  }

  for (std::uint32_t i = 0; i != kNone; i = nodes[i].next) {
    const std::string_view bytes = text.substr(nodes[i].begin, nodes[i].bytes);
    if (const auto id = find_plain(bytes)) {
      ids.push_back(*id);
    } else {
      append_bytes(bytes, ids);
    }
  }
}

void SentencePieceEncoder::queue_pair(std::uint32_t left, Scratch& scratch) const {
  const Node& first = scratch.nodes[left];
  const Node& second = scratch.nodes[first.next];
  const std::uint32_t bytes = first.bytes + second.bytes;
  if (const auto id = find_plain(scratch.text.substr(first.begin, bytes))) {
    scratch.heap.push_back(
        {scores_[static_cast<std::size_t>(*id)], left, first.bytes, second.bytes});
    std::push_heap(scratch.heap.begin(), scratch.heap.end());
  }
}

std::optional<Token> SentencePieceEncoder::find_plain(std::string_view bytes) const {
  const auto id = table_.find(bytes);
  return id && table_.is_plain(*id) ? id : std::nullopt;
}

void SentencePieceEncoder::append_bytes(std::string_view bytes, std::vector<Token>& ids) const {
  const std::size_t size_before = ids.size();
  for (const char byte : bytes) {
    const auto id = table_.byte_token(static_cast<unsigned char>(byte));
    if (!id) {
      ids.resize(size_before);
      if (unknown_) ids.push_back(*unknown_);
      return;
    }
    ids.push_back(*id);
  }
}

}  // namespace terrace::tokenizer
