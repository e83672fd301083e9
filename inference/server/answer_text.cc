#include "inference/server/answer_text.h"

#include <algorithm>
#include <utility>

namespace terrace::inference {

namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

struct Scanned {
  std::size_t bytes = 0;  // that belong together
  bool valid = false;
  bool cut = false;  // the end came before the character's
};

// The character at the front, or the longest beginning of one.
Scanned scan(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {1, true, false};
  if (lead < 0xC2 || lead > 0xF4) return {1, false, false};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  // Overlong forms, surrogates and what lies past U+10FFFF show in the second byte.
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (std::size_t i = 1; i < length; ++i) {
    if (i >= text.size()) return {i, false, true};
    if (byte(i) < (i == 1 ? low : 0x80) || byte(i) > (i == 1 ? high : 0xBF))
      return {i, false, false};
  }
  return {length, true, false};
}

}  // namespace

std::string take_utf8(std::string& bytes, bool all) {
  std::string text;
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const Scanned next = scan(rest);
    if (next.cut && !all) break;
    text += next.valid ? rest.substr(0, next.bytes) : replacement;
    rest.remove_prefix(next.bytes);
  }
  bytes.erase(0, bytes.size() - rest.size());
  return text;
}

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & '\xC0') != '\x80'; }));
}

std::string AnswerText::add(Token id) {
  // The first token alone knows whether a leading space is dropped.
  bytes_ += std::exchange(first_, false) ? tokenizer_.decode({&id, 1}) : tokenizer_.piece(id);
  const std::size_t from = text_.size();
  text_ += take_utf8(bytes_, false);
  look_for_stop(from);
  return give_out(stopped_ ? text_.size() : text_.size() - held_back());
}

std::string AnswerText::finish() {
  if (!stopped_) {
    const std::size_t from = text_.size();
    text_ += take_utf8(bytes_, true);
    look_for_stop(from);
  }
  return give_out(text_.size());
}

void AnswerText::look_for_stop(std::size_t from) {
  std::size_t end = std::string::npos;
  for (const std::string& stop : stop_texts_) {
    const std::size_t back = std::min(from, stop.size() - 1);
    // What has been given out is no part of any.
    end = std::min(end, text_.find(stop, std::max(from - back, given_out_)));
  }
  if (end == std::string::npos) return;
  text_.resize(end);
  stopped_ = true;
}

std::size_t AnswerText::held_back() const {
  std::size_t longest = 0;
  for (const std::string& stop : stop_texts_)
    for (std::size_t bytes = std::min(stop.size() - 1, text_.size() - given_out_); bytes > longest;
         --bytes)
      if (text_.ends_with(std::string_view(stop).substr(0, bytes))) longest = bytes;
  return longest;
}

std::string AnswerText::give_out(std::size_t end) {
  std::string text = text_.substr(given_out_, end - given_out_);
  given_out_ = end;
  return text;
}

}  // namespace terrace::inference
