#include "inference/tokenizer/byte_map.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace terrace::tokenizer {
namespace {

constexpr std::size_t kCharacters = 0x100 + 68;
constexpr std::int16_t kNone = -1;

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

// The byte of each character, kNone where it stands for none.
constexpr std::array<std::int16_t, kCharacters> kBytes = [] {
  std::array<std::int16_t, kCharacters> bytes{};
  bytes.fill(kNone);
  std::size_t moved = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const std::size_t character =
        stands_for_itself(byte) ? static_cast<std::size_t>(byte) : moved++;
    bytes[character] = static_cast<std::int16_t>(byte);
  }
  return bytes;
}();

}  // namespace

bool append_mapped_bytes(std::string_view text, std::string& bytes) {
  const std::size_t size_before = bytes.size();
  for (std::size_t i = 0; i < text.size(); ++i) {
    // All characters of the map have one or two bytes in UTF-8.
    const auto lead = static_cast<unsigned char>(text[i]);
    std::size_t character = lead;
    if (lead >= 0x80) {
      const bool whole = (lead & 0xe0) == 0xc0 && i + 1 < text.size() &&
                         (static_cast<unsigned char>(text[i + 1]) & 0xc0) == 0x80;
      if (whole) character = (lead & 0x1fu) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3fu);
      if (!whole || character < 0x80) character = kCharacters;
    }
    if (character >= kCharacters || kBytes[character] == kNone) {
      bytes.resize(size_before);
      return false;
    }
    bytes.push_back(static_cast<char>(kBytes[character]));
  }
  return true;
}

}  // namespace terrace::tokenizer
