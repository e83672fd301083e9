// Characters of UTF-8 text and the three classes that pre-tokenizers tell apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace terrace::tokenizer {

enum class CharacterClass : std::uint8_t {
  end,     // behind the text
  letter,  // \p{L}
  number,  // \p{N}
  space,   // \s: Unicode's White_Space
  other,
};

struct Character {
  CharacterClass kind = CharacterClass::end;
  std::uint32_t code = 0;  // U+FFFD for a byte that begins no character
  std::size_t bytes = 0;   // 0 behind the text
};

// The character that begins at text[offset]; one of class `end` where offset >= text.size(). A byte
// that begins no UTF-8 character is a character of class `other` by itself.
Character character_at(std::string_view text, std::size_t offset);

}  // namespace terrace::tokenizer
