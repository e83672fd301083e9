// SentencePiece's BPE: text to ids by merging neighbours, the highest score first.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "inference/tokenizer/plain_encoder.h"
#include "inference/tokenizer/token_table.h"
#include "inference/tokenizer/vocabulary.h"

namespace terrace::tokenizer {

// A text starts as one symbol a character, after a space where it opens and the vocabulary wants
// one. The pair of neighbours that is a token with the highest score is merged first, the leftmost
// of equals, until none is left: O(n log n). A character that is no token becomes its byte tokens;
// where the vocabulary lacks one of them, the unknown token; where it lacks that, nothing.
class SentencePieceEncoder : public PlainEncoder {
 public:
  // Refers to `table`, which must outlive it.
  SentencePieceEncoder(const Vocabulary& vocabulary, const TokenTable& table);

  void encode(std::string_view text, bool opens, std::vector<Token>& ids) const override;

 private:
  struct Scratch;
  void merge(std::string_view text, Scratch& scratch, std::vector<Token>& ids) const;
  void queue_pair(std::uint32_t left, Scratch& scratch) const;
  std::optional<Token> find_plain(std::string_view bytes) const;
  void append_bytes(std::string_view bytes, std::vector<Token>& ids) const;

  const TokenTable& table_;
  const std::vector<float> scores_;
  const std::optional<Token> unknown_;
  const bool adds_space_prefix_;
  // No token has a space behind anything but spaces: what is merged ends before the next word.
  const bool words_are_apart_;
};

}  // namespace terrace::tokenizer
