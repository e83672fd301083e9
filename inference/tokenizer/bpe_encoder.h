// Byte-level BPE: text to ids by merging neighbours, the earliest learnt merge first.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "inference/tokenizer/merge_table.h"
#include "inference/tokenizer/plain_encoder.h"
#include "inference/tokenizer/token_table.h"
#include "inference/tokenizer/vocabulary.h"

namespace terrace::tokenizer {

// Each pre-token starts as one symbol a byte. The pair of neighbours whose merge has the lowest
// rank is merged first, the leftmost of equals, until none is left: O(n log n). A byte that has no
// token is left out.
class BpeEncoder : public PlainEncoder {
 public:
  // Refers to `table`, which must outlive it. Errors of MergeTable::create.
  static Result<std::unique_ptr<BpeEncoder>> create(const Vocabulary& vocabulary,
                                                    const TokenTable& table);

  void encode(std::string_view text, bool opens, std::vector<Token>& ids) const override;

 private:
  struct Scratch;
  BpeEncoder(Scheme scheme, MergeTable merges, const TokenTable& table)
      : scheme_(scheme), merges_(std::move(merges)), table_(table) {}
  void merge(std::string_view piece, Scratch& scratch, std::vector<Token>& ids) const;
  void queue_pair(std::uint32_t left, Scratch& scratch) const;
  void append_symbol(Symbol symbol, std::vector<Token>& ids) const;

  const Scheme scheme_;
  const MergeTable merges_;
  const TokenTable& table_;
};

}  // namespace terrace::tokenizer
