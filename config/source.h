// Where options come from: a TOML file and `--set key=value`, flattened to a list of dotted keys,
// each with the place that a message about it names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/status.h"

namespace terrace::config {

// One option from the command line; later ones win, and all win over the file.
struct Override {
  // Of `--set key=value`: the value is read as TOML, and what TOML does not know is text.
  // invalid_argument where there is no '=' or no key.
  static Result<Override> set(std::string_view key_and_value);
  // Of a flag of its own, such as `--socket PATH` for "socket": the value is text as it stands.
  static Override flag(std::string_view flag, std::string_view key, std::string_view text);

  std::string key;
  std::string value;
  std::string where;  // "--set device.capacity", "--socket"
  bool is_text = false;
};

// A key that holds other keys.
struct Section {
  bool operator==(const Section&) const = default;
};
// What no option takes: a list of anything but texts, a date.
struct Unsupported {
  std::string name;
};
using Texts = std::vector<std::string>;
using Value = std::variant<Section, bool, std::int64_t, double, std::string, Texts, Unsupported>;

// As much of a text as a message quotes.
constexpr std::size_t max_quoted_bytes = 400;
// With a '?' for each control character: what is told of a file is one line, whatever it holds.
std::string one_line(std::string text);

// "the text 'abc'", "the number 7", for messages.
std::string describe(const Value& value);

struct Entry {
  std::string key;  // dotted, such as "device.capacity"
  Value value;
  std::string where;  // what a message starts with: "terraced.toml:12: device.capacity"
};

// Configuration files are written by people; a larger one is a mistake.
constexpr std::size_t max_config_file_bytes = 1 << 20;
// Keys and sections of a file with all overrides.
constexpr std::size_t max_config_entries = 4096;
// Of a file or an override. It bounds how deep a dotted key nests.
constexpr std::size_t max_config_line_bytes = 4096;
// Sections in sections. Options lie in two at most.
constexpr std::size_t max_config_depth = 8;

// All that is set, each key once, sections before what they hold. No file: only overrides.
// invalid_argument for what does not parse ("FILE:LINE: what"), io_error for a file that cannot be
// read.
Result<std::vector<Entry>> read_entries(const std::optional<std::filesystem::path>& file,
                                        std::span<const Override> overrides);

}  // namespace terrace::config
