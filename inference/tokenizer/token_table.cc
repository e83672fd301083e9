#include "inference/tokenizer/token_table.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "inference/tokenizer/byte_map.h"
#include "inference/tokenizer/quoted.h"

namespace terrace::tokenizer {
namespace {

constexpr Token kNoToken = -1;
constexpr std::string_view kSpaceMark = "\xe2\x96\x81";  // U+2581, SentencePiece's space

constexpr std::array<std::string_view, 6> kStopTexts = {
    "<|eot_id|>", "<|im_end|>", "<|end_of_text|>", "<|endoftext|>", "<|eom_id|>", "</s>",
};

// The byte of a text such as "<0x0A>".
std::optional<unsigned char> parse_byte(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text.back() != '>') return std::nullopt;
  unsigned char byte = 0;
  const char* end = text.data() + 5;
  const auto [stopped, code] = std::from_chars(text.data() + 3, end, byte, 16);
  if (code != std::errc() || stopped != end) return std::nullopt;
  return byte;
}

void append_with_spaces(std::string_view text, std::string& bytes) {
  for (std::size_t mark; (mark = text.find(kSpaceMark)) != std::string_view::npos;) {
    bytes.append(text.substr(0, mark)).push_back(' ');
    text.remove_prefix(mark + kSpaceMark.size());
  }
  bytes.append(text);
}

tl::unexpected<Status> malformed(Token id, const std::string& what) {
  return error(StatusCode::invalid_argument,
               "tokenizer.ggml.tokens: token " + std::to_string(id) + " " + what);
}

}  // namespace

bool is_stop_text(std::string_view text) {
  return std::find(kStopTexts.begin(), kStopTexts.end(), text) != kStopTexts.end();
}

bool TokenTable::is_plain(TokenType type) {
  return type == TokenType::normal || type == TokenType::unused || type == TokenType::byte;
}

Result<TokenTable> TokenTable::create(const Vocabulary& vocabulary) {
  const bool sentencepiece = vocabulary.scheme == Scheme::sentencepiece;
  TokenTable table;
  table.types_ = vocabulary.types;
  table.offsets_.reserve(vocabulary.texts.size() + 1);
  table.offsets_.push_back(0);
  std::string bytes;
  for (std::size_t i = 0; i < vocabulary.texts.size(); ++i) {
    const std::string_view text = vocabulary.texts[i];
    TokenType& type = table.types_[i];
    if (type == TokenType::user_defined && is_stop_text(text)) type = TokenType::control;
    bytes.clear();
    if (sentencepiece && type == TokenType::byte) {
      const auto byte = parse_byte(text);
      if (!byte) {
        return malformed(static_cast<Token>(i),
                         "is a byte but its text, " + quoted(text) + ", names none");
      }
      if (table.byte_tokens_.empty()) table.byte_tokens_.assign(256, kNoToken);
      table.byte_tokens_[*byte] = static_cast<Token>(i);
      bytes.push_back(static_cast<char>(*byte));
    } else if (!is_plain(type)) {
      bytes.append(text);
    } else if (sentencepiece) {
      append_with_spaces(text, bytes);
    } else if (!append_mapped_bytes(text, bytes)) {
      bytes.append(text);  // no text becomes this token, but it can be shown
    }
    table.arena_.insert(table.arena_.end(), bytes.begin(), bytes.end());
    table.offsets_.push_back(table.arena_.size());
  }

  // Views only once the arena no longer moves.
  table.by_bytes_.reserve(vocabulary.texts.size());
  for (std::size_t i = 0; i < vocabulary.texts.size(); ++i) {
    const Token id = static_cast<Token>(i);
    const bool indexed =
        !vocabulary.texts[i].empty() && !(sentencepiece && table.type(id) == TokenType::byte);
    if (!indexed) continue;
    const auto [place, is_new] = table.by_bytes_.emplace(table.bytes(id), id);
    if (is_new) continue;
    const Token first = place->second;
    if (vocabulary.texts[static_cast<std::size_t>(first)] == vocabulary.texts[i]) {
      return malformed(id, "has the same text as token " + std::to_string(first) + ": " +
                               quoted(vocabulary.texts[i]));
    }
    if (!table.is_plain(first)) place->second = id;
  }
  return table;
}

std::string_view TokenTable::bytes(Token id) const {
  const auto i = static_cast<std::size_t>(id);
  return {arena_.data() + offsets_[i], offsets_[i + 1] - offsets_[i]};
}

std::optional<Token> TokenTable::find(std::string_view bytes) const {
  const auto found = by_bytes_.find(bytes);
  if (found == by_bytes_.end()) return std::nullopt;
  return found->second;
}

std::optional<Token> TokenTable::byte_token(unsigned char byte) const {
  if (byte_tokens_.empty() || byte_tokens_[byte] == kNoToken) return std::nullopt;
  return byte_tokens_[byte];
}

}  // namespace terrace::tokenizer
