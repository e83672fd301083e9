// Turns ids into text as they come, without ever giving out half a UTF-8 character.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "inference/tokenizer/tokenizer.h"

namespace terrace::inference {

class TextStream {
 public:
  // `tokenizer` must outlive the stream. `on_text` may be empty.
  TextStream(const tokenizer::Tokenizer& tokenizer, std::function<void(std::string_view)> on_text);

  void add(Token id);
  // Gives out what is left, complete or not, and returns the whole text.
  std::string finish();

 private:
  void give_out(std::size_t end);

  const tokenizer::Tokenizer& tokenizer_;
  std::function<void(std::string_view)> on_text_;
  bool first_ = true;
  std::string text_;
  std::size_t given_out_ = 0;
};

}  // namespace terrace::inference
