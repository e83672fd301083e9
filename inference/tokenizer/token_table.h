// The bytes and the type of every token.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/block_key.h"
#include "core/status.h"
#include "inference/tokenizer/vocabulary.h"

namespace terrace::tokenizer {

// Immutable once created, and then safe to share between threads.
class TokenTable {
 public:
  // invalid_argument for two tokens of one text, or a byte token that names no byte. Copies what it
  // keeps. Tokens that end an answer by their text become control tokens where they are
  // user-defined: what a user writes must not end an answer.
  static Result<TokenTable> create(const Vocabulary& vocabulary);
  TokenTable(TokenTable&&) = default;

  std::size_t size() const { return types_.size(); }
  bool contains(Token id) const { return id >= 0 && static_cast<std::size_t>(id) < size(); }
  TokenType type(Token id) const { return types_[static_cast<std::size_t>(id)]; }
  // What the token stands for: plain bytes, spaces as spaces; the text of a special one.
  std::string_view bytes(Token id) const;

  // The token that stands for `bytes`, of whatever type but `byte`. Where two do (a plain one may
  // equal a special one's text), the plain one.
  std::optional<Token> find(std::string_view bytes) const;
  // The `byte` token of a byte (sentencepiece).
  std::optional<Token> byte_token(unsigned char byte) const;

  // Plain text can become a token of this type.
  static bool is_plain(TokenType type);
  bool is_plain(Token id) const { return is_plain(type(id)); }

 private:
  TokenTable() = default;

  std::vector<TokenType> types_;
  std::vector<char> arena_;           // the bytes of all tokens, one behind the other
  std::vector<std::size_t> offsets_;  // into arena_, size() + 1 of them
  std::unordered_map<std::string_view, Token> by_bytes_;  // views into arena_
  std::vector<Token> byte_tokens_;                        // 256, or none
};

// "<|eot_id|>" and the like: texts of tokens that end an answer in any vocabulary.
bool is_stop_text(std::string_view text);

}  // namespace terrace::tokenizer
