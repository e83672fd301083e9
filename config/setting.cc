#include "config/setting.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdio>

namespace terrace::config {
namespace {

bool is_bare_key(std::string_view key) {
  return !key.empty() && std::ranges::all_of(key, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-';
  });
}

// "" for options that are in no section. The middle of a longer key is a name that somebody chose.
std::string section_of(const std::string& key) {
  const std::size_t last = key.rfind('.');
  if (last == std::string::npos) return {};
  const std::size_t first = key.find('.');
  if (first == last) return key.substr(0, first);
  const std::string name = key.substr(first + 1, last - first - 1);
  return key.substr(0, first + 1) + (is_bare_key(name) ? name : toml_text(name));
}

std::string line_of(const Setting& setting) {
  const std::string name = setting.key.substr(setting.key.rfind('.') + 1);
  if (setting.secret) return "# " + name + " is " + setting.value + "\n";
  return name + " = " + setting.value + (setting.where.empty() ? "" : "  # " + setting.where) +
         "\n";
}

}  // namespace

std::string toml_text(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", byte);
      quoted += escaped;
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string toml_texts(std::span<const std::string> texts) {
  std::string list = "[";
  for (const std::string& text : texts) list += (list.size() > 1 ? ", " : "") + toml_text(text);
  return list + "]";
}

std::string toml_bytes(std::uint64_t bytes) {
  constexpr std::array units = {"", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < units.size()) {
    bytes /= 1024;
    ++unit;
  }
  const std::string number = std::to_string(bytes);
  return unit == 0 ? number : "\"" + number + units[unit] + "\"";
}

std::string toml_number(double number) {
  char text[32];
  const auto [end, failure] = std::to_chars(text, text + sizeof text, number);
  std::string written(text, end);
  // What has neither a point nor an exponent is a whole number to TOML.
  if (written.find_first_of(".en") == std::string::npos) written += ".0";
  return written;
}

std::string to_toml(std::span<const Setting> settings) {
  std::vector<std::string> sections = {""};
  for (const Setting& setting : settings)
    if (const std::string section = section_of(setting.key);
        std::ranges::find(sections, section) == sections.end())
      sections.push_back(section);
  std::string text;
  for (const std::string& section : sections) {
    if (!section.empty()) text += "\n[" + section + "]\n";
    for (const Setting& setting : settings)
      if (section_of(setting.key) == section) text += line_of(setting);
  }
  return text;
}

}  // namespace terrace::config
