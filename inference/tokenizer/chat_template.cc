#include "inference/tokenizer/chat_template.h"

#include <algorithm>
#include <string_view>

#include "inference/tokenizer/template_literals.h"

namespace terrace::tokenizer {
namespace {

constexpr std::string_view kTemplateKey = "tokenizer.chat_template";
constexpr std::string_view kTurnStart = "<|im_start|>";
constexpr std::string_view kTurnEnd = "<|im_end|>";
constexpr std::string_view kSystemTurn = "<|im_start|>system\n";
constexpr std::string_view kHeaderStart = "<|start_header_id|>";
constexpr std::string_view kHeaderEnd = "<|end_header_id|>";
constexpr std::string_view kLlama3Bos = "<|begin_of_text|>";

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\n\v\f\r";
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

// The system message that a template writes out in full: a whole turn in one literal. One that is
// put together from literals and the conversation's own message is not in any of them whole.
std::optional<std::string> find_default_system(std::string_view source) {
  for (const std::string& literal : template_literals(source)) {
    const std::size_t turn = literal.find(kSystemTurn);
    if (turn == std::string::npos) continue;
    const std::size_t begin = turn + kSystemTurn.size();
    const std::size_t end = literal.find(kTurnEnd, begin);
    if (end != std::string::npos) return literal.substr(begin, end - begin);
  }
  return std::nullopt;
}

std::string bos_text(const gguf::File& file) {
  const auto id = file.unsigned_integer("tokenizer.ggml.bos_token_id");
  const auto texts = file.texts("tokenizer.ggml.tokens");
  return id && *id < texts.size() ? std::string(texts[*id]) : std::string();
}

Result<ChatTemplate> from_source(const gguf::File& file, std::string_view source) {
  const auto has = [source](std::string_view text) {
    return source.find(text) != std::string_view::npos;
  };
  ChatTemplate chat;
  if (has(kTurnStart) && has(kTurnEnd)) {
    chat.format = ChatFormat::chatml;
    chat.default_system = find_default_system(source);
    if (has("bos_token")) chat.bos = bos_text(file);
  } else if (has(kHeaderStart) && has(kHeaderEnd)) {
    chat.format = ChatFormat::llama3;
    chat.bos = kLlama3Bos;
  } else {
    return error(StatusCode::unimplemented,
                 file.path() + ": its chat template is neither ChatML nor Llama 3");
  }
  return chat;
}

}  // namespace

Result<ChatTemplate> ChatTemplate::detect(const gguf::File& file) {
  if (const auto source = file.text(kTemplateKey)) return from_source(file, *source);

  const auto texts = file.texts("tokenizer.ggml.tokens");
  const auto has = [&texts](std::string_view text) {
    return std::find(texts.begin(), texts.end(), text) != texts.end();
  };
  ChatTemplate chat;
  if (has(kTurnStart) && has(kTurnEnd)) {
    chat.format = ChatFormat::chatml;
    if (file.boolean("tokenizer.ggml.add_bos_token").value_or(false)) chat.bos = bos_text(file);
  } else if (has(kHeaderStart) && has(kHeaderEnd)) {
    chat.format = ChatFormat::llama3;
    chat.bos = kLlama3Bos;
  } else {
    return error(StatusCode::unimplemented,
                 file.path() +
                     ": no chat template, and no special tokens of ChatML or Llama 3: only a raw "
                     "prompt (--raw) can be asked");
  }
  return chat;
}

std::string ChatTemplate::render(std::span<const Message> messages) const {
  std::string text = bos;
  const auto append_turn = [&](std::string_view role, std::string_view content) {
    if (format == ChatFormat::chatml) {
      text.append(kTurnStart).append(role).append("\n");
      text.append(content).append(kTurnEnd).append("\n");
    } else {
      text.append(kHeaderStart).append(role).append(kHeaderEnd).append("\n\n");
      text.append(trimmed(content)).append("<|eot_id|>");
    }
  };
  const bool has_system = !messages.empty() && messages.front().role == "system";
  if (default_system && !messages.empty() && !has_system) append_turn("system", *default_system);
  for (const Message& message : messages) append_turn(message.role, message.content);
  if (format == ChatFormat::chatml) {
    text.append(kTurnStart).append("assistant\n");
  } else {
    text.append(kHeaderStart).append("assistant").append(kHeaderEnd).append("\n\n");
  }
  return text;
}

}  // namespace terrace::tokenizer
