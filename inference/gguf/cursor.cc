#include "inference/gguf/cursor.h"

namespace terrace::gguf {

std::string quoted(std::string_view name) {
  constexpr std::size_t longest = 80;
  std::string text = "'";
  for (const char c : name.substr(0, longest)) {
    text += c >= 0x20 && c < 0x7f && c != '\'' ? c : '?';
  }
  return text + (name.size() > longest ? "...'" : "'");
}

std::string at_offset(std::uint64_t offset) { return " at offset " + std::to_string(offset); }

}  // namespace terrace::gguf
