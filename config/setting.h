// What an option is set to in the end, and where that comes from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace terrace::config {

struct Setting {
  std::string key;    // dotted, such as "device.capacity"
  std::string value;  // as TOML writes it; of a secret only that there is one
  std::string where;  // "terraced.toml:12", "--set", or "" for the default
  bool secret = false;
};

// TOML's way of writing a text, a list of texts and a size in bytes, without loss.
std::string toml_text(std::string_view text);
std::string toml_texts(std::span<const std::string> texts);
std::string toml_bytes(std::uint64_t bytes);
std::string toml_number(double number);

// A file that sets everything to what it is, with a comment where that is not the default. Secrets
// are left out, with a comment.
std::string to_toml(std::span<const Setting> settings);

}  // namespace terrace::config
