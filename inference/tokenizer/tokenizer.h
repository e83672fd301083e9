// Text to token ids and back, as the model's own file says.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/block_key.h"
#include "core/status.h"
#include "inference/gguf/gguf_file.h"

namespace terrace::tokenizer {

struct EncodeOptions {
  bool parse_special = false;  // texts of control tokens become those tokens
};

class Tokenizer {
 public:
  // Reads the vocabulary of a file; the file may be closed afterwards. unimplemented for a
  // tokenizer that is not known, invalid_argument for a malformed one.
  static Result<std::unique_ptr<Tokenizer>> load(const gguf::File& file);
  virtual ~Tokenizer() = default;

  // No BOS is added. Any bytes are accepted: bytes that no token stands for, which a vocabulary may
  // lack, are left out or, with SentencePiece, become the unknown token. User-defined tokens are
  // always recognised; text never becomes a control token unless parse_special. O(n log n).
  // Thread-safe.
  virtual std::vector<Token> encode(std::string_view text,
                                    const EncodeOptions& options = {}) const = 0;
  // The bytes of ids (control and unknown tokens give their text if `special`, else nothing, as do
  // ids that are none); a token may end inside a UTF-8 character. Where encoding adds a space in
  // front, the one in front is dropped. Thread-safe.
  virtual std::string decode(std::span<const Token> ids, bool special = false) const = 0;
  // The bytes of one token in the middle of a text, with its space: what a stream of tokens
  // appends. The view lives as long as the tokenizer.
  virtual std::string_view piece(Token id, bool special = false) const = 0;

  virtual std::size_t size() const = 0;
  virtual std::optional<Token> bos() const = 0;
  virtual bool adds_bos() const = 0;
  // Tokens that end an answer: eos, eot, eom and known texts.
  virtual const std::set<Token>& stop_tokens() const = 0;
};

}  // namespace terrace::tokenizer
