#include "inference/worker/text_stream.h"

#include <utility>

namespace terrace::inference {

namespace {

// How many bytes at the end of `text` begin a UTF-8 character that is not complete yet.
std::size_t incomplete_tail_bytes(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

}  // namespace

TextStream::TextStream(const tokenizer::Tokenizer& tokenizer,
                       std::function<void(std::string_view)> on_text)
    : tokenizer_(tokenizer), on_text_(std::move(on_text)) {}

void TextStream::add(Token id) {
  // The first token alone knows whether a leading space is dropped.
  text_ += std::exchange(first_, false) ? tokenizer_.decode({&id, 1}) : tokenizer_.piece(id);
  give_out(text_.size() - incomplete_tail_bytes(text_));
}

std::string TextStream::finish() {
  give_out(text_.size());
  return std::move(text_);
}

void TextStream::give_out(std::size_t end) {
  if (end <= given_out_) return;
  if (on_text_) on_text_(std::string_view(text_).substr(given_out_, end - given_out_));
  given_out_ = end;
}

}  // namespace terrace::inference
