// Small vocabularies that a test can read, and slow encoders that are plainly right.
#pragma once

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "inference/tokenizer/tokenizer.h"
#include "inference/tokenizer/vocabulary.h"
#include "inference/tokenizer/vocabulary_tokenizer.h"

namespace terrace::tokenizer {

// The character that byte-level vocabularies write for a byte, in UTF-8.
std::string mapped(unsigned char byte);
// `bytes` as such a vocabulary writes them.
std::string mapped(std::string_view bytes);

// Owns the texts that a Vocabulary views.
class TestVocabulary {
 public:
  explicit TestVocabulary(Scheme scheme) : scheme_(scheme) {}

  Token add(std::string text, TokenType type = TokenType::normal, float score = 0);
  // A merge with the rank that follows, and its product as a token; returns the product's id.
  Token add_merge(std::string_view left, std::string_view right,
                  TokenType product = TokenType::normal);
  // A merge without the product.
  void add_bare_merge(std::string merge) { merges_.push_back(std::move(merge)); }
  // Tokens 0 to 255: byte-level, every byte's character; SentencePiece, every "<0xNN>".
  TestVocabulary& add_bytes();

  Vocabulary view() const;
  std::unique_ptr<Tokenizer> tokenizer() const;  // fails the test if there is none

  const std::vector<std::string>& texts() const { return texts_; }
  const std::vector<std::string>& merges() const { return merges_; }
  std::optional<Token> unknown;
  bool adds_space_prefix = false;

 private:
  Scheme scheme_;
  std::vector<std::string> texts_, merges_;
  std::vector<TokenType> types_;
  std::vector<float> scores_;
};

// Random text: words, spaces, newlines, digits, marks, letters of many scripts, emoji.
std::string random_text(std::mt19937_64& random, std::size_t characters);
std::string random_bytes(std::mt19937_64& random, std::size_t bytes);

}  // namespace terrace::tokenizer
