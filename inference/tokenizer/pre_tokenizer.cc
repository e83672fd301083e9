#include "inference/tokenizer/pre_tokenizer.h"

#include <cstddef>

#include "inference/tokenizer/character.h"

namespace terrace::tokenizer {
namespace {

constexpr std::size_t kMaxDigits = 3;

bool is_newline(const Character& character) {
  return character.code == '\r' || character.code == '\n';
}

// The end of the run of characters of `kind` that begins at `offset`.
std::size_t end_of_run(std::string_view text, std::size_t offset, CharacterClass kind) {
  for (;;) {
    const Character character = character_at(text, offset);
    if (character.kind != kind) return offset;
    offset += character.bytes;
  }
}

char letter_at(std::string_view text, std::size_t offset, bool any_case) {
  if (offset >= text.size()) return '\0';
  const char c = text[offset];
  return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Bytes of the contraction at `offset` ('s 't 're 've 'm 'll 'd), 0 if there is none.
std::size_t contraction_bytes(std::string_view text, std::size_t offset, bool any_case) {
  if (text[offset] != '\'') return 0;
  const char first = letter_at(text, offset + 1, any_case);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  const char second = letter_at(text, offset + 2, any_case);
  const bool long_one =
      ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l');
  return long_one ? 3 : 0;
}

struct Spaces {
  std::size_t end = 0;            // of the run
  std::size_t last = 0;           // offset of its last character
  std::size_t after_newline = 0;  // behind its last newline; 0 if it has none
};

Spaces scan_spaces(std::string_view text, std::size_t offset) {
  Spaces spaces{offset, offset, 0};
  for (;;) {
    const Character character = character_at(text, spaces.end);
    if (character.kind != CharacterClass::space) return spaces;
    spaces.last = spaces.end;
    spaces.end += character.bytes;
    if (is_newline(character)) spaces.after_newline = spaces.end;
  }
}

// \s+(?!\S)|\s+ : a run of spaces leaves its last one to the text behind it.
std::size_t end_of_spaces(std::string_view text, std::size_t offset, const Spaces& spaces) {
  return spaces.end < text.size() && spaces.last > offset ? spaces.last : spaces.end;
}

// The end of ` ?[class]+` at `offset`, or `offset` where it does not match.
std::size_t end_of_spaced_run(std::string_view text, std::size_t offset, CharacterClass kind) {
  const std::size_t begin = offset + (text[offset] == ' ' ? 1 : 0);
  const std::size_t end = end_of_run(text, begin, kind);
  return end > begin ? end : offset;
}

std::size_t end_of_llama3_piece(std::string_view text, std::size_t offset) {
  if (const std::size_t bytes = contraction_bytes(text, offset, true)) return offset + bytes;

  const Character first = character_at(text, offset);
  if (first.kind != CharacterClass::number && !is_newline(first)) {
    const std::size_t begin = offset + (first.kind == CharacterClass::letter ? 0 : first.bytes);
    const std::size_t end = end_of_run(text, begin, CharacterClass::letter);
    if (end > begin) return end;
  }
  if (first.kind == CharacterClass::number) {
    std::size_t end = offset;
    for (std::size_t digits = 0; digits < kMaxDigits; ++digits) {
      const Character digit = character_at(text, end);
      if (digit.kind != CharacterClass::number) break;
      end += digit.bytes;
    }
    return end;
  }
  std::size_t end = end_of_spaced_run(text, offset, CharacterClass::other);
  if (end > offset) {
    while (end < text.size() && (text[end] == '\r' || text[end] == '\n')) ++end;
    return end;
  }
  const Spaces spaces = scan_spaces(text, offset);
  return spaces.after_newline > 0 ? spaces.after_newline : end_of_spaces(text, offset, spaces);
}

// The first pass leaves no numbers to this one.
std::size_t end_of_gpt2_piece(std::string_view text, std::size_t offset) {
  if (const std::size_t bytes = contraction_bytes(text, offset, false)) return offset + bytes;
  for (const CharacterClass kind : {CharacterClass::letter, CharacterClass::other}) {
    const std::size_t end = end_of_spaced_run(text, offset, kind);
    if (end > offset) return end;
  }
  return end_of_spaces(text, offset, scan_spaces(text, offset));
}

template <typename EndOfPiece>
void cut(std::string_view text, EndOfPiece end_of_piece, std::vector<std::string_view>& pieces) {
  for (std::size_t offset = 0; offset < text.size();) {
    const std::size_t end = end_of_piece(text, offset);
    pieces.push_back(text.substr(offset, end - offset));
    offset = end;
  }
}

}  // namespace

void pre_tokenize_llama3(std::string_view text, std::vector<std::string_view>& pieces) {
  cut(text, end_of_llama3_piece, pieces);
}

void pre_tokenize_smollm(std::string_view text, std::vector<std::string_view>& pieces) {
  std::size_t gap = 0;
  for (std::size_t offset = 0; offset < text.size();) {
    const Character character = character_at(text, offset);
    const std::size_t next = offset + character.bytes;
    if (character.kind == CharacterClass::number) {
      cut(text.substr(gap, offset - gap), end_of_gpt2_piece, pieces);
      pieces.push_back(text.substr(offset, character.bytes));
      gap = next;
    }
    offset = next;
  }
  cut(text.substr(gap), end_of_gpt2_piece, pieces);
}

}  // namespace terrace::tokenizer
