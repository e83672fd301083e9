// What somebody asks a model, and the ids that the model gets of it: the same for whoever computes
// it and for whoever wants to know what is cached of it.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/block_key.h"
#include "core/status.h"
#include "inference/tokenizer/chat_template.h"
#include "inference/tokenizer/tokenizer.h"

namespace terrace::tokenizer {

struct PromptText {
  std::string text;                   // of the user
  std::optional<std::string> system;  // prompt
  bool raw = false;                   // as it stands, without the chat template and `system`
};

// The ids of a conversation through a chat template.
std::vector<Token> encode_chat(const Tokenizer& tokenizer, const ChatTemplate& chat_template,
                               std::span<const Message> messages);
// The ids of a text as it stands, special texts parsed, with a BOS where the model wants one.
std::vector<Token> encode_raw(const Tokenizer& tokenizer, std::string_view text);

// The ids of one question. `chat_template`: of the model's file; its error is returned where it is
// needed.
Result<std::vector<Token>> encode_prompt(const Tokenizer& tokenizer,
                                         const Result<ChatTemplate>& chat_template,
                                         const PromptText& prompt);

}  // namespace terrace::tokenizer
