#include "core/bytes.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace terrace {

std::string to_hex(std::span<const std::uint8_t> bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string hex(bytes.size() * 2, '\0');
  char* to = hex.data();
  for (const std::uint8_t byte : bytes) {
    *to++ = digits[byte >> 4];
    *to++ = digits[byte & 15];
  }
  return hex;
}

bool from_hex(std::string_view hex, std::span<std::uint8_t> out) {
  if (hex.size() != out.size() * 2) return false;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const char* begin = hex.data() + 2 * i;
    const auto [end, failure] = std::from_chars(begin, begin + 2, out[i], 16);
    if (failure != std::errc() || end != begin + 2) return false;
  }
  return true;
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  const int decimals = unit == 0 || value >= 100 || value == std::floor(value) ? 0
                       : value >= 10                                           ? 1
                                                                               : 2;
  char text[32];
  std::snprintf(text, sizeof text, "%.*f %s", decimals, value, units[unit]);
  return text;
}

Result<std::uint64_t> parse_bytes(std::string_view text) {
  const auto malformed = [&] {
    return error(StatusCode::invalid_argument,
                 "'" + std::string(text) + "' is not a size; write for example 8GiB or 512MiB");
  };
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  auto [rest, failure] = std::from_chars(text.data(), end, number);
  if (failure != std::errc()) return malformed();
  while (rest != end && *rest == ' ') ++rest;
  std::string unit;
  for (; rest != end; ++rest)
    unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*rest)));
  if (unit.empty() || unit == "b") return number;
  constexpr std::string_view prefixes = "kmgt";
  const std::size_t power = prefixes.find(unit[0]);
  const std::string_view suffix = std::string_view(unit).substr(1);
  if (power == std::string_view::npos || (!suffix.empty() && suffix != "ib" && suffix != "b"))
    return malformed();
  const unsigned shift = 10 * static_cast<unsigned>(power + 1);
  if (number > (UINT64_MAX >> shift)) return malformed();
  return number << shift;
}

}  // namespace terrace
