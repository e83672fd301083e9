// What a file's metadata says about its vocabulary, checked: the plain vectors from which a
// tokenizer is built.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/block_key.h"
#include "core/status.h"
#include "inference/gguf/gguf_file.h"

namespace terrace::tokenizer {

// The numbers of tokenizer.ggml.token_type.
enum class TokenType : std::uint8_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6,
};

// The families of tokenizers that are known.
enum class Scheme {
  llama_bpe,      // byte-level BPE; pre-tokens of Llama 3, whole where the vocabulary has them
  smollm_bpe,     // byte-level BPE; digits one by one, then the pre-tokens of GPT-2
  sentencepiece,  // merges by score, bytes for what is no token
};

// Views into the file it was read from, or into a test's texts.
struct Vocabulary {
  Scheme scheme = Scheme::llama_bpe;
  std::vector<std::string_view> texts;   // by token id
  std::vector<TokenType> types;          // by token id
  std::vector<float> scores;             // by token id; sentencepiece only
  std::vector<std::string_view> merges;  // by rank, "left right"; byte-level BPE only
  std::optional<Token> bos, eos, eot, eom, unknown;
  bool adds_bos = false;
  bool adds_space_prefix = false;  // sentencepiece only
};

// Every array has one entry a token and every id is one of a token. unimplemented for a tokenizer
// that is not known; invalid_argument, with one line that names the key, for a malformed one.
Result<Vocabulary> read_vocabulary(const gguf::File& file);

}  // namespace terrace::tokenizer
