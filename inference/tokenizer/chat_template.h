// Conversations as the text that a model was trained on.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "core/status.h"
#include "inference/gguf/gguf_file.h"

namespace terrace::tokenizer {

struct Message {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

enum class ChatFormat { chatml, llama3 };

// A format picked from a file's metadata.
struct ChatTemplate {
  ChatFormat format = ChatFormat::chatml;
  // Put first where a conversation does not start with a system message; taken from the text of
  // the file's own template.
  std::optional<std::string> default_system;
  std::string bos;  // the text that opens the conversation; empty where the format has none

  // From tokenizer.chat_template, or the vocabulary's special tokens where there is none;
  // unimplemented if it is neither ChatML nor Llama 3.
  static Result<ChatTemplate> detect(const gguf::File& file);

  // The conversation with the assistant's turn opened; special texts are to be parsed, those inside
  // of messages too. Starts with the BOS text where the format has one, so none is to be added.
  std::string render(std::span<const Message> messages) const;
};

}  // namespace terrace::tokenizer
