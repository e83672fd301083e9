// The text of an answer as its tokens come: always valid UTF-8, and nothing of a stop text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "inference/tokenizer/tokenizer.h"

namespace terrace::inference {

// Takes what is complete of `bytes` from its front: characters as they are, what is none as U+FFFD.
// With `all`, a character that is cut at the end is none.
std::string take_utf8(std::string& bytes, bool all);

// How many characters begin in a valid text.
std::size_t count_characters(std::string_view text);

class AnswerText {
 public:
  // `tokenizer` must outlive it.
  AnswerText(const tokenizer::Tokenizer& tokenizer, std::vector<std::string> stop_texts)
      : tokenizer_(tokenizer), stop_texts_(std::move(stop_texts)) {}

  // Adds a token and returns the text that can be given out now: what may turn out to be the
  // beginning of a stop text is held back.
  std::string add(Token id);
  // What is left, at the end.
  std::string finish();

  // A stop text has come: the text ends before it.
  bool stopped() const { return stopped_; }
  // Bytes of the text so far, and of those how many have been given out.
  std::size_t size() const { return text_.size(); }
  std::size_t given_out() const { return given_out_; }
  // In bytes [begin, end) of the text; none where it ended before.
  std::size_t characters_between(std::size_t begin, std::size_t end) const {
    return begin < text_.size()
               ? count_characters(std::string_view(text_).substr(begin, end - begin))
               : 0;
  }

 private:
  void look_for_stop(std::size_t from);
  std::size_t held_back() const;
  std::string give_out(std::size_t end);

  const tokenizer::Tokenizer& tokenizer_;
  const std::vector<std::string> stop_texts_;
  bool first_ = true;
  bool stopped_ = false;
  std::string bytes_;  // a character that is not complete yet
  std::string text_;
  std::size_t given_out_ = 0;
};

}  // namespace terrace::inference
