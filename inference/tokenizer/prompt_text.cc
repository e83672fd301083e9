#include "inference/tokenizer/prompt_text.h"

namespace terrace::tokenizer {

std::vector<Token> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                               std::span<const Message> messages) {
  return tokenizer.encode(chat_template.render(messages), {.parse_special = true});
}

std::vector<Token> encode_raw(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<Token> ids = tokenizer.encode(text, {.parse_special = true});
  if (const auto bos = tokenizer.bos();
      tokenizer.adds_bos() && bos && (ids.empty() || ids.front() != *bos))
    ids.insert(ids.begin(), *bos);
  return ids;
}

Result<std::vector<Token>> encode_prompt(const Tokenizer& tokenizer,
                                         const Result<ChatTemplate>& chat_template,
                                         const PromptText& prompt) {
  if (prompt.raw) return encode_raw(tokenizer, prompt.text);
  if (!chat_template) return error(chat_template.error());
  std::vector<Message> messages;
  if (prompt.system) messages.push_back({"system", *prompt.system});
  messages.push_back({"user", prompt.text});
  return encode_chat(tokenizer, *chat_template, messages);
}

}  // namespace terrace::tokenizer
