#include "inference/tokenizer/character.h"

#include <utf8proc.h>

#include <array>

namespace terrace::tokenizer {
namespace {

constexpr std::uint32_t kReplacement = 0xfffd;

constexpr std::array<CharacterClass, 128> kAscii = [] {
  std::array<CharacterClass, 128> classes{};
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool number = c >= '0' && c <= '9';
    const bool space = (c >= '\t' && c <= '\r') || c == ' ';
    classes[c] = letter   ? CharacterClass::letter
                 : number ? CharacterClass::number
                 : space  ? CharacterClass::space
                          : CharacterClass::other;
  }
  return classes;
}();

CharacterClass class_of(utf8proc_int32_t code) {
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return CharacterClass::letter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return CharacterClass::number;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return CharacterClass::space;
    default:
      // The one White_Space character outside ASCII and the separators: NEXT LINE.
      return code == 0x85 ? CharacterClass::space : CharacterClass::other;
  }
}

}  // namespace

Character character_at(std::string_view text, std::size_t offset) {
  if (offset >= text.size()) return {};
  const auto lead = static_cast<unsigned char>(text[offset]);
  if (lead < 0x80) return {kAscii[lead], lead, 1};
  utf8proc_int32_t code = -1;
  const utf8proc_ssize_t bytes =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + offset,
                       static_cast<utf8proc_ssize_t>(text.size() - offset), &code);
  if (bytes <= 0) return {CharacterClass::other, kReplacement, 1};
  return {class_of(code), static_cast<std::uint32_t>(code), static_cast<std::size_t>(bytes)};
}

}  // namespace terrace::tokenizer
