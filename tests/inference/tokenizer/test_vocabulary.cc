#include "tests/inference/tokenizer/test_vocabulary.h"

#include <gtest/gtest.h>

#include <array>

namespace terrace::tokenizer {

std::string mapped(unsigned char byte) {
  unsigned code = byte;
  unsigned moved = 0x100;
  for (unsigned other = 0; other < 256; ++other) {
    const bool itself = (other > 0x20 && other < 0x7f) || (other > 0xa0 && other != 0xad);
    if (!itself && other == byte) code = moved;
    if (!itself) ++moved;
  }
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

std::string mapped(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += mapped(static_cast<unsigned char>(byte));
  return text;
}

Token TestVocabulary::add(std::string text, TokenType type, float score) {
  texts_.push_back(std::move(text));
  types_.push_back(type);
  scores_.push_back(score);
  return static_cast<Token>(texts_.size() - 1);
}

Token TestVocabulary::add_merge(std::string_view left, std::string_view right, TokenType product) {
  merges_.push_back(mapped(left) + " " + mapped(right));
  const bool plain = product == TokenType::normal;
  const std::string whole = std::string(left) + std::string(right);
  return add(plain ? mapped(whole) : whole, product);
}

TestVocabulary& TestVocabulary::add_bytes() {
  for (int byte = 0; byte < 256; ++byte) {
    if (scheme_ == Scheme::sentencepiece) {
      std::array<char, 8> text{};
      std::snprintf(text.data(), text.size(), "<0x%02X>", static_cast<unsigned>(byte));
      add(text.data(), TokenType::byte);
    } else {
      add(mapped(static_cast<unsigned char>(byte)));
    }
  }
  return *this;
}

Vocabulary TestVocabulary::view() const {
  Vocabulary vocabulary;
  vocabulary.scheme = scheme_;
  vocabulary.texts.assign(texts_.begin(), texts_.end());
  vocabulary.types = types_;
  vocabulary.scores = scores_;
  vocabulary.merges.assign(merges_.begin(), merges_.end());
  vocabulary.unknown = unknown;
  vocabulary.adds_space_prefix = adds_space_prefix;
  return vocabulary;
}

std::unique_ptr<Tokenizer> TestVocabulary::tokenizer() const {
  auto made = make_tokenizer(view());
  EXPECT_TRUE(made) << made.error().to_string();
  return made ? std::move(*made) : nullptr;
}

std::string random_text(std::mt19937_64& random, std::size_t characters) {
  static constexpr std::array<std::string_view, 48> kPieces = {"a",
                                                               "b",
                                                               "e",
                                                               "t",
                                                               "s",
                                                               "the",
                                                               "ing",
                                                               "'s",
                                                               "'RE",
                                                               "'",
                                                               "l",
                                                               "Z",
                                                               " ",
                                                               " ",
                                                               "  ",
                                                               "\n",
                                                               "\n",
                                                               "\r\n",
                                                               "\t",
                                                               "\xc2\xa0",
                                                               "\xe3\x80\x80",
                                                               "\xc2\x85",
                                                               "0",
                                                               "7",
                                                               "12345",
                                                               "\xd9\xa3",  // an Arabic digit
                                                               "\xc2\xbd",  // one half
                                                               "!",
                                                               ".",
                                                               "...",
                                                               "--",
                                                               "_",
                                                               "#",
                                                               "<|",
                                                               "\xc3\xa9",
                                                               "\xc3\x9f",
                                                               "\xd1\x8f",
                                                               "\xe6\xbc\xa2",
                                                               "\xed\x95\x9c",
                                                               "\xcc\x81",  // a combining mark
                                                               "\xf0\x9f\x99\x82",  // an emoji
                                                               "\xe2\x80\x8d",      // a joiner
                                                               "\xe2\x80\xa6",
                                                               "\xe2\x80\x94",
                                                               "\xe2\x88\x80",
                                                               "\xf0\x9f\x87\xa9",
                                                               "x",
                                                               "y"};
  std::uniform_int_distribution<std::size_t> pick(0, kPieces.size() - 1);
  std::string text;
  for (std::size_t i = 0; i < characters; ++i) text += kPieces[pick(random)];
  return text;
}

std::string random_bytes(std::mt19937_64& random, std::size_t bytes) {
  std::uniform_int_distribution<int> pick(0, 255);
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text.push_back(static_cast<char>(pick(random)));
  return text;
}

}  // namespace terrace::tokenizer
