// The merges of byte-level BPE: which two symbols become which, and how early.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/block_key.h"
#include "core/status.h"
#include "inference/tokenizer/token_table.h"

namespace terrace::tokenizer {

// A token's id, or table.size() + byte for a byte that has no token.
using Symbol = std::int32_t;

struct Merge {
  Symbol right = 0;
  std::uint32_t rank = 0;
  Symbol product = 0;
};

class MergeTable {
 public:
  // invalid_argument for a merge that is not two texts, or that takes or makes what is no token.
  static Result<MergeTable> create(std::span<const std::string_view> merges,
                                   const TokenTable& table);

  // The merge of two neighbours, nullptr if there is none.
  const Merge* find(Symbol left, Symbol right) const;
  // The symbol of a byte by itself.
  Symbol of_byte(unsigned char byte) const { return bytes_[byte]; }
  // What a token that plain text cannot become was merged from; nullptr if from nothing.
  struct Parts {
    Symbol left, right;
  };
  const Parts* parts(Symbol special) const;

 private:
  MergeTable() = default;

  std::vector<Symbol> bytes_;           // 256
  std::vector<std::uint32_t> offsets_;  // by left symbol, into merges_
  std::vector<Merge> merges_;           // of one left symbol: ascending by right symbol
  std::unordered_map<Symbol, Parts> parts_;
};

}  // namespace terrace::tokenizer
