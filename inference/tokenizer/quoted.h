// Texts of a file inside of messages.
#pragma once

#include <string>
#include <string_view>

namespace terrace::tokenizer {

// `text` between quotes, at most 64 bytes of it, with '?' for control characters: a message stays
// one line of bearable length, whatever a file holds.
inline std::string quoted(std::string_view text) {
  constexpr std::size_t kMaxBytes = 64;
  std::string result = "\"";
  for (const char c : text.substr(0, kMaxBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    result.push_back(byte < 0x20 || byte == 0x7f ? '?' : c);
  }
  return result.append(text.size() > kMaxBytes ? "\"..." : "\"");
}

}  // namespace terrace::tokenizer
