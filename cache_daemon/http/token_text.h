// The text of tokens, for the models whose files the configuration names.
#pragma once

#include <future>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/daemon_config.h"
#include "core/block_key.h"
#include "inference/tokenizer/tokenizer.h"

namespace terrace::daemon {

class TokenText {
 public:
  // Begins to read the files, on a thread of its own. One that cannot be read is a line of the log.
  explicit TokenText(std::vector<config::ModelOptions> models);

  // What tokens of the model with this label say; nothing if there is no such model, or not yet.
  // May begin or end inside a UTF-8 character.
  std::optional<std::string> text(const std::string& label, std::span<const Token> tokens);

 private:
  using Tokenizers = std::map<std::string, std::unique_ptr<tokenizer::Tokenizer>>;

  std::optional<std::future<Tokenizers>> loading_;
  Tokenizers tokenizers_;
};

}  // namespace terrace::daemon
