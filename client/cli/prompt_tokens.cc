#include "client/cli/prompt_tokens.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>

#include "inference/gguf/gguf_file.h"
#include "inference/tokenizer/tokenizer.h"

namespace terrace::cli {
namespace {

Result<std::unique_ptr<tokenizer::Tokenizer>> load_tokenizer(const std::string& model_file) {
  const auto file = gguf::File::open(model_file);
  if (!file) return error(file.error());
  return tokenizer::Tokenizer::load(**file);
}

}  // namespace

Result<std::vector<Token>> parse_tokens(const std::string& text) {
  std::vector<Token> tokens;
  const auto between = [](char c) {
    return c == ' ' || c == ',' || c == '\n' || c == '\t' || c == '\r' || c == '[' || c == ']';
  };
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    at = std::find_if_not(at, end, between);
    if (at == end) return tokens;
    Token token = 0;
    const auto [rest, failure] = std::from_chars(at, end, token);
    if (failure != std::errc() || (rest != end && !between(*rest)))
      return error(StatusCode::invalid_argument,
                   "token " + std::to_string(tokens.size() + 1) + " is no token id");
    tokens.push_back(token);
    at = rest;
  }
}

Result<std::function<std::string(std::span<const Token>)>> load_text_reader(
    const std::string& model_file) {
  auto loaded = load_tokenizer(model_file);
  if (!loaded) return error(loaded.error());
  return [tokenizer = std::shared_ptr<const tokenizer::Tokenizer>(std::move(*loaded))](
             std::span<const Token> tokens) { return tokenizer->decode(tokens, true); };
}

Result<std::vector<Token>> read_prompt(const PromptSource& source) {
  if (source.tokens_file.has_value() == source.text.has_value())
    return error(StatusCode::invalid_argument, "give one of --tokens and --prompt");
  if (source.tokens_file) {
    std::ifstream file;
    if (*source.tokens_file != "-") {
      file.open(*source.tokens_file, std::ios::binary);
      if (!file) return error(errno_status(errno, "could not read " + *source.tokens_file));
    }
    std::istream& in = *source.tokens_file == "-" ? std::cin : file;
    const std::string text(std::istreambuf_iterator<char>(in), {});
    if (in.bad()) return error(StatusCode::io_error, "could not read " + *source.tokens_file);
    return parse_tokens(text);
  }
  if (source.model_file.empty())
    return error(StatusCode::invalid_argument,
                 "--prompt needs --model: the GGUF file that the worker serves");
  const auto tokenizer = load_tokenizer(source.model_file);
  if (!tokenizer) return error(tokenizer.error());
  std::vector<Token> tokens = (*tokenizer)->encode(*source.text, {.parse_special = true});
  if (const auto bos = (*tokenizer)->bos();
      bos && (*tokenizer)->adds_bos() && (tokens.empty() || tokens.front() != *bos))
    tokens.insert(tokens.begin(), *bos);
  return tokens;
}

}  // namespace terrace::cli
