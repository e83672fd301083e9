// A prompt as an operator gives it: token ids, or text and the file of a model whose tokenizer is
// to be used.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/block_key.h"
#include "core/status.h"
#include "inference/tokenizer/prompt_text.h"

namespace terrace::cli {

// The same words as `terrace-worker generate` has. A file named "-" is the input.
struct PromptSource {
  std::optional<std::string> tokens_file;  // ids, as a JSON array or apart by blanks
  std::optional<std::string> text, text_file;
  std::optional<std::string> system, system_file;
  bool raw = false;        // without the chat template
  std::string model_file;  // GGUF; for text
};

// The ids that a worker would compute for this. invalid_argument for what is neither, for text
// without a model and for what are no ids.
Result<std::vector<Token>> read_prompt(const PromptSource& source);

// What a model's file says of text.
class PromptEncoder {
 public:
  // The file's errors.
  static Result<PromptEncoder> load(const std::string& model_file);
  // As a worker with this model would; the template's error where it has one and it is needed.
  Result<std::vector<Token>> encode(const tokenizer::PromptText& prompt) const;
  std::string decode(std::span<const Token> tokens) const;

 private:
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  Result<tokenizer::ChatTemplate> chat_template_;
};

// One object of JSON a line: {"tokens": [1, 2]} or {"prompt": "...", "system": "...", "raw": true}
// with the last two as one likes. invalid_argument that names the line for anything else, and for a
// prompt where `model_file` is empty.
Result<std::vector<std::vector<Token>>> read_manifest(const std::string& file,
                                                      const std::string& model_file);

// Reads token ids as text with the tokenizer of a model's file.
Result<std::function<std::string(std::span<const Token>)>> load_text_reader(
    const std::string& model_file);

// Ids as a JSON array or apart by blanks and commas. invalid_argument for anything else.
Result<std::vector<Token>> parse_tokens(const std::string& text);

}  // namespace terrace::cli
