// Moves entries into the fields of an options struct, checking each on the way. What is wrong is
// collected, so that one run shows every mistake of a file.
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/setting.h"
#include "config/source.h"
#include "core/status.h"

namespace terrace::config {

class OptionReader {
 public:
  explicit OptionReader(std::vector<Entry> entries) : entries_(std::move(entries)) {}

  // Each sets `field` if the key is there and its value is of the right type and within the bounds
  // (inclusive); otherwise the field keeps its value.
  void flag(std::string_view key, bool& field);
  void text(std::string_view key, std::string& field);
  // The same, and what is wrong with it is said without saying what it is.
  void secret(std::string_view key, std::string& field);
  // A list of texts, or one text.
  void texts(std::string_view key, std::vector<std::string>& field);
  void number(std::string_view key, double& field, double minimum, double maximum);
  template <typename Integer>
  void integer(std::string_view key, Integer& field, Integer minimum, Integer maximum) {
    if (const auto found = read_integer(key, std::int64_t{minimum}, std::int64_t{maximum}))
      field = static_cast<Integer>(*found);
    record(key, std::to_string(field));
  }
  // A number of bytes, or text such as "8GiB".
  void bytes(std::string_view key, std::uint64_t& field, std::uint64_t minimum,
             std::uint64_t maximum);
  // The same, or "auto" for nothing.
  void bytes_or_auto(std::string_view key, std::optional<std::uint64_t>& field,
                     std::uint64_t minimum, std::uint64_t maximum);
  // A number of seconds, or text such as "90m" or "7d"; 0 is always allowed.
  void duration(std::string_view key, std::chrono::seconds& field, std::chrono::seconds minimum,
                std::chrono::seconds maximum);
  // One of a few words.
  template <typename Enum>
  void choice(std::string_view key, Enum& field,
              std::initializer_list<std::pair<std::string_view, Enum>> words) {
    std::vector<std::string_view> names;
    for (const auto& [name, value] : words) names.push_back(name);
    if (const auto index = read_choice(key, names)) field = (words.begin() + *index)->second;
    for (const auto& [name, value] : words)
      if (value == field) record(key, toml_text(name));
  }

  // The names of the sections in a section that people name themselves, in their order; a dot may
  // be in a name.
  std::vector<std::string> names_in(std::string_view section);

  // A rule over several keys was broken. The message names the place of `key` if it was set.
  void problem(std::string_view key, std::string_view what);

  // What every option that was asked for is now, in the order of asking.
  const std::vector<Setting>& settings() const { return settings_; }

  // ok, or invalid_argument with all problems in one line; keys that nobody asked for among them.
  Status finish();

 private:
  // The entry of a key that an option exists for.
  const Entry* take(std::string_view key);
  void mismatch(const Entry& entry, std::string_view expected);
  std::optional<std::int64_t> read_integer(std::string_view key, std::int64_t minimum,
                                           std::int64_t maximum);
  std::optional<std::uint64_t> check_bytes(const Entry& entry, std::uint64_t minimum,
                                           std::uint64_t maximum, std::string_view alternative);
  std::optional<std::size_t> read_choice(std::string_view key,
                                         const std::vector<std::string_view>& names);

  void record(std::string_view key, std::string value, bool secret = false);

  std::vector<Entry> entries_;
  std::vector<Setting> settings_;
  std::vector<std::string> known_keys_;
  std::vector<std::string> problems_;
};

}  // namespace terrace::config
