#include "client/cli/text.h"

#include <algorithm>
#include <ctime>
#include <iomanip>
#include <sstream>

namespace terrace::cli {
namespace {

bool continues(unsigned char byte) { return (byte & 0xc0) == 0x80; }

// How many bytes the character at the beginning has; 0 if they are no UTF-8.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80                    ? 1
                             : first >= 0xc2 && first < 0xe0 ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if (!continues(byte(i))) return 0;
  if (length == 1) return 1;
  // Longer than need be, halves of a pair, and what is past the last character.
  const unsigned char second = byte(1);
  const bool wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second >= 0xa0) ||
                     (first == 0xf0 && second < 0x90) || (first == 0xf4 && second >= 0x90);
  return wrong ? 0 : length;
}

// C0, DEL and C1: each may begin a command to a terminal.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return first == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

std::string cleaned(std::string_view text, bool show_breaks) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = character_bytes(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(length, 1));
    text.remove_prefix(character.size());
    if (length > 0 && !is_control(character))
      clean += character;
    else if (show_breaks && character == "\n")
      clean += "\\n";
    else if (show_breaks && character == "\r")
      clean += "\\r";
    else if (show_breaks && character == "\t")
      clean += "\\t";
    else
      clean += '?';
  }
  return clean;
}

}  // namespace

std::string printable(std::string_view text) { return cleaned(text, false); }
std::string visible(std::string_view text) { return cleaned(text, true); }

std::string shortened(std::string_view text, std::size_t max_characters) {
  std::size_t characters = 0;
  for (std::size_t at = 0; at < text.size(); ++at)
    if (!continues(static_cast<unsigned char>(text[at])) && ++characters > max_characters)
      return std::string(text.substr(0, at)) + "...";
  return std::string(text);
}

std::string counted(std::uint64_t count, std::string_view noun) {
  std::string text = std::to_string(count) + " ";
  text += noun;
  if (count != 1) text += noun.ends_with('x') ? "es" : "s";
  return text;
}

std::string format_age(std::int64_t ms) {
  const std::int64_t s = std::max<std::int64_t>(0, ms) / 1000;
  if (s < 120) return std::to_string(s) + " s";
  if (s < 2 * 3600) return std::to_string(s / 60) + " min";
  if (s < 2 * 86400) return std::to_string(s / 3600) + " h";
  return std::to_string(s / 86400) + " d";
}

std::string format_utc(std::int64_t unix_ms) {
  const auto seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm parts{};
  if (::gmtime_r(&seconds, &parts) == nullptr) return "";
  std::ostringstream out;
  out << std::put_time(&parts, "%Y-%m-%d %H:%M:%S UTC");
  return out.str();
}

}  // namespace terrace::cli
