// A prompt as an operator gives it: token ids, or text and the file of a model whose tokenizer is
// to be used.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/block_key.h"
#include "core/status.h"

namespace terrace::cli {

struct PromptSource {
  std::optional<std::string>
      tokens_file;  // ids, as a JSON array or apart by blanks; "-": the input
  std::optional<std::string> text;
  std::string model_file;  // GGUF; for `text`
};

// invalid_argument for what is neither, for text without a model and for what are no ids.
Result<std::vector<Token>> read_prompt(const PromptSource& source);

// Reads token ids as text with the tokenizer of a model's file.
Result<std::function<std::string(std::span<const Token>)>> load_text_reader(
    const std::string& model_file);

// Ids as a JSON array or apart by blanks and commas. invalid_argument for anything else.
Result<std::vector<Token>> parse_tokens(const std::string& text);

}  // namespace terrace::cli
