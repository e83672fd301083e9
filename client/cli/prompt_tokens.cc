#include "client/cli/prompt_tokens.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "inference/gguf/gguf_file.h"

namespace terrace::cli {
namespace {

// What messages call the input.
std::string name_of(const std::string& file) { return file == "-" ? "standard input" : file; }

Result<std::string> read_text_file(const std::string& path) {
  std::ifstream file;
  if (path != "-") {
    errno = 0;
    file.open(path, std::ios::binary);
    if (!file) return error(errno_status(errno, "could not read " + path));
  }
  std::istream& in = path == "-" ? std::cin : file;
  std::string text(std::istreambuf_iterator<char>(in), {});
  if (in.bad()) return error(StatusCode::io_error, "could not read " + name_of(path));
  return text;
}

Result<std::optional<std::string>> text_of(const std::optional<std::string>& text,
                                           const std::optional<std::string>& file) {
  if (text || !file) return text;
  auto read = read_text_file(*file);
  if (!read) return error(read.error());
  return std::optional(std::move(*read));
}

// What a line of a manifest asks for, or why it cannot be read.
struct ManifestLine {
  std::optional<std::vector<Token>> tokens;
  tokenizer::PromptText prompt;
  std::string problem;
};

ManifestLine parse_manifest_line(const std::string& text) {
  ManifestLine line;
  try {
    const auto object = nlohmann::json::parse(text);
    if (const auto tokens = object.find("tokens"); tokens != object.end()) {
      line.tokens = tokens->get<std::vector<Token>>();
      return line;
    }
    line.prompt.text = object.at("prompt").get<std::string>();
    if (object.contains("system")) line.prompt.system = object["system"].get<std::string>();
    line.prompt.raw = object.value("raw", false);
  } catch (const nlohmann::json::exception&) {
    line.problem = "is no {\"tokens\": [...]} and no {\"prompt\": \"...\"}";
  }
  return line;
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

Result<PromptEncoder> PromptEncoder::load(const std::string& model_file) {
  const auto file = gguf::File::open(model_file);
  if (!file) return error(file.error());
  auto tokenizer = tokenizer::Tokenizer::load(**file);
  if (!tokenizer) return error(tokenizer.error());
  PromptEncoder encoder;
  encoder.tokenizer_ = std::move(*tokenizer);
  encoder.chat_template_ = tokenizer::ChatTemplate::detect(**file);
  return encoder;
}

Result<std::vector<Token>> PromptEncoder::encode(const tokenizer::PromptText& prompt) const {
  return tokenizer::encode_prompt(*tokenizer_, chat_template_, prompt);
}

std::string PromptEncoder::decode(std::span<const Token> tokens) const {
  return tokenizer_->decode(tokens, true);
}

Result<std::function<std::string(std::span<const Token>)>> load_text_reader(
    const std::string& model_file) {
  auto encoder = PromptEncoder::load(model_file);
  if (!encoder) return error(encoder.error());
  return [encoder = std::move(*encoder)](std::span<const Token> tokens) {
    return encoder.decode(tokens);
  };
}

Result<std::vector<Token>> read_prompt(const PromptSource& source) {
  const bool has_text = source.text || source.text_file;
  if (source.tokens_file.has_value() == has_text)
    return error(StatusCode::invalid_argument, "give one of --tokens, --prompt and --prompt-file");
  if (source.tokens_file) {
    const auto text = read_text_file(*source.tokens_file);
    if (!text) return error(text.error());
    return parse_tokens(*text);
  }
  if (source.model_file.empty())
    return error(StatusCode::invalid_argument,
                 "a prompt as text needs --model: the GGUF file that the worker serves");
  const auto text = text_of(source.text, source.text_file);
  if (!text) return error(text.error());
  const auto system = text_of(source.system, source.system_file);
  if (!system) return error(system.error());
  const auto encoder = PromptEncoder::load(source.model_file);
  if (!encoder) return error(encoder.error());
  return encoder->encode({text->value_or(""), *system, source.raw});
}

Result<std::vector<std::vector<Token>>> read_manifest(const std::string& file,
                                                      const std::string& model_file) {
  const auto text = read_text_file(file);
  if (!text) return error(text.error());
  std::optional<PromptEncoder> encoder;
  std::vector<std::vector<Token>> prompts;
  std::istringstream lines(*text);
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = name_of(file) + ":" + std::to_string(number) + ": ";
    ManifestLine parsed = parse_manifest_line(line);
    if (!parsed.problem.empty()) return error(StatusCode::invalid_argument, where + parsed.problem);
    if (parsed.tokens) {
      prompts.push_back(std::move(*parsed.tokens));
      continue;
    }
    if (model_file.empty())
      return error(StatusCode::invalid_argument,
                   where + "a prompt as text needs --model: the GGUF file that the worker serves");
    if (!encoder) {
      auto loaded = PromptEncoder::load(model_file);
      if (!loaded) return error(loaded.error());
      encoder = std::move(*loaded);
    }
    auto tokens = encoder->encode(parsed.prompt);
    if (!tokens) return error(tokens.error().with_context(where));
    prompts.push_back(std::move(*tokens));
  }
  return prompts;
}

}  // namespace terrace::cli
