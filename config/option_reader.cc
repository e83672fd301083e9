#include "config/option_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <sstream>

#include "core/bytes.h"
#include "core/edit_distance.h"

namespace terrace::config {
namespace {

// More than this many mistakes are one mistake: the wrong file.
constexpr std::size_t max_problems_shown = 8;

std::string in_people_s_bytes(std::uint64_t bytes) {
  return bytes == 0 ? "0" : format_bytes(bytes);
}

// Does `key` lie in the section `section`?
bool lies_in(std::string_view key, std::string_view section) {
  return key.size() > section.size() && key.starts_with(section) && key[section.size()] == '.';
}

constexpr std::array<std::pair<char, std::int64_t>, 4> time_units = {
    {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}}};

// "90m", "7d", "30" -> seconds.
std::optional<std::int64_t> parse_seconds(std::string_view text) {
  std::int64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [unit, failed] = std::from_chars(text.data(), end, count);
  if (failed != std::errc() || count < 0 || count > INT32_MAX) return std::nullopt;
  if (unit == end) return count;
  for (const auto& [name, seconds] : time_units)
    if (*unit == name && unit + 1 == end) return count * seconds;
  return std::nullopt;
}

// In the largest unit that leaves no rest.
std::string in_people_s_time(std::chrono::seconds time) {
  for (const auto& [name, seconds] : time_units)
    if (time.count() != 0 && time.count() % seconds == 0)
      return std::to_string(time.count() / seconds) + name;
  return "0";
}

bool has_zero(const std::string& text) { return text.find('\0') != std::string::npos; }

}  // namespace

const Entry* OptionReader::take(std::string_view key) {
  known_keys_.emplace_back(key);
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& candidate) { return candidate.key == key; });
  return entry == entries_.end() ? nullptr : &*entry;
}

std::vector<std::string> OptionReader::names_in(std::string_view section) {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) {
    if (!lies_in(entry.key, section)) continue;
    const std::string inside = entry.key.substr(section.size() + 1);
    // What holds keys is a section; on the command line only its keys are told.
    const bool is_section = std::holds_alternative<Section>(entry.value);
    const std::string name = is_section ? inside : inside.substr(0, inside.rfind('.'));
    if (!is_section && inside.find('.') == std::string::npos) continue;
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  // A name with a dot comes with the sections around it, which hold no key of their own.
  std::erase_if(names, [&](const std::string& name) {
    return std::ranges::any_of(names,
                               [&](const std::string& other) { return lies_in(other, name); });
  });
  return names;
}

void OptionReader::mismatch(const Entry& entry, std::string_view expected) {
  problems_.push_back(entry.where + ": found " + describe(entry.value) + ", expected " +
                      std::string(expected));
}

void OptionReader::problem(std::string_view key, std::string_view what) {
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& candidate) { return candidate.key == key; });
  problems_.push_back((entry == entries_.end() ? std::string(key) : entry->where) + ": " +
                      std::string(what));
}

void OptionReader::record(std::string_view key, std::string value, bool secret) {
  const auto entry = std::ranges::find(entries_, key, &Entry::key);
  std::string where = entry == entries_.end() ? "" : entry->where;
  // A message names the key after the place; here it stands in front.
  if (const std::string after = ": " + std::string(key); where.ends_with(after))
    where.resize(where.size() - after.size());
  settings_.push_back({std::string(key), std::move(value), std::move(where), secret});
}

void OptionReader::flag(std::string_view key, bool& field) {
  if (const Entry* entry = take(key)) {
    if (const bool* value = std::get_if<bool>(&entry->value))
      field = *value;
    else
      mismatch(*entry, "true or false");
  }
  record(key, field ? "true" : "false");
}

void OptionReader::text(std::string_view key, std::string& field) {
  if (const Entry* entry = take(key)) {
    const auto* value = std::get_if<std::string>(&entry->value);
    if (value != nullptr && !has_zero(*value))
      field = *value;
    else
      mismatch(*entry, "text in quotes");
  }
  record(key, toml_text(field));
}

void OptionReader::secret(std::string_view key, std::string& field) {
  if (const Entry* entry = take(key)) {
    const auto* value = std::get_if<std::string>(&entry->value);
    const bool tells = value != nullptr || std::holds_alternative<std::int64_t>(entry->value) ||
                       std::holds_alternative<double>(entry->value);
    if (value != nullptr && !has_zero(*value))
      field = *value;
    else
      problems_.push_back(entry->where + ": found " +
                          (tells ? "something else" : describe(entry->value)) +
                          ", expected text in quotes");
  }
  record(key, field.empty() ? "not set" : "set", true);
}

void OptionReader::texts(std::string_view key, std::vector<std::string>& field) {
  if (const Entry* entry = take(key)) {
    const auto* const one = std::get_if<std::string>(&entry->value);
    const auto* const list = std::get_if<Texts>(&entry->value);
    if (one != nullptr && !has_zero(*one))
      field = {*one};
    else if (list != nullptr && std::ranges::none_of(*list, has_zero))
      field = *list;
    else
      mismatch(*entry, "a list of texts in quotes");
  }
  record(key, toml_texts(field));
}

void OptionReader::number(std::string_view key, double& field, double minimum, double maximum) {
  if (const Entry* entry = take(key)) {
    double value = std::nan("");
    if (const auto* real = std::get_if<double>(&entry->value)) value = *real;
    if (const auto* whole = std::get_if<std::int64_t>(&entry->value))
      value = static_cast<double>(*whole);
    if (value >= minimum && value <= maximum) {
      field = value;
    } else {
      std::ostringstream expected;
      expected << "a number from " << minimum << " to " << maximum;
      mismatch(*entry, expected.str());
    }
  }
  record(key, toml_number(field));
}

std::optional<std::int64_t> OptionReader::read_integer(std::string_view key, std::int64_t minimum,
                                                       std::int64_t maximum) {
  const Entry* entry = take(key);
  if (entry == nullptr) return std::nullopt;
  const auto* value = std::get_if<std::int64_t>(&entry->value);
  if (value != nullptr && *value >= minimum && *value <= maximum) return *value;
  mismatch(*entry,
           "a whole number from " + std::to_string(minimum) + " to " + std::to_string(maximum));
  return std::nullopt;
}

std::optional<std::uint64_t> OptionReader::check_bytes(const Entry& entry, std::uint64_t minimum,
                                                       std::uint64_t maximum,
                                                       std::string_view alternative) {
  std::optional<std::uint64_t> bytes;
  if (const auto* number = std::get_if<std::int64_t>(&entry.value); number && *number >= 0)
    bytes = static_cast<std::uint64_t>(*number);
  if (const auto* written = std::get_if<std::string>(&entry.value))
    if (const Result<std::uint64_t> parsed = parse_bytes(*written)) bytes = *parsed;
  if (bytes && *bytes >= minimum && *bytes <= maximum) return bytes;
  mismatch(entry, "a size from " + in_people_s_bytes(minimum) + " to " +
                      in_people_s_bytes(maximum) + ", such as \"512MiB\"" +
                      std::string(alternative));
  return std::nullopt;
}

void OptionReader::bytes(std::string_view key, std::uint64_t& field, std::uint64_t minimum,
                         std::uint64_t maximum) {
  if (const Entry* entry = take(key))
    if (const auto found = check_bytes(*entry, minimum, maximum, "")) field = *found;
  record(key, toml_bytes(field));
}

void OptionReader::bytes_or_auto(std::string_view key, std::optional<std::uint64_t>& field,
                                 std::uint64_t minimum, std::uint64_t maximum) {
  if (const Entry* entry = take(key)) {
    const auto* word = std::get_if<std::string>(&entry->value);
    if (word != nullptr && *word == "auto")
      field = std::nullopt;
    else if (const auto found = check_bytes(*entry, minimum, maximum, ", or \"auto\""))
      field = found;
  }
  record(key, field ? toml_bytes(*field) : toml_text("auto"));
}

void OptionReader::duration(std::string_view key, std::chrono::seconds& field,
                            std::chrono::seconds minimum, std::chrono::seconds maximum) {
  if (const Entry* entry = take(key)) {
    std::optional<std::int64_t> seconds;
    if (const auto* number = std::get_if<std::int64_t>(&entry->value)) seconds = *number;
    if (const auto* text = std::get_if<std::string>(&entry->value)) seconds = parse_seconds(*text);
    if (seconds && (*seconds == 0 || (*seconds >= minimum.count() && *seconds <= maximum.count())))
      field = std::chrono::seconds(*seconds);
    else
      mismatch(*entry, "a time from " + in_people_s_time(minimum) + " to " +
                           in_people_s_time(maximum) + ", such as \"90m\" or \"7d\", or 0");
  }
  record(key, toml_text(in_people_s_time(field)));
}

std::optional<std::size_t> OptionReader::read_choice(std::string_view key,
                                                     const std::vector<std::string_view>& names) {
  const Entry* entry = take(key);
  if (entry == nullptr) return std::nullopt;
  if (const auto* word = std::get_if<std::string>(&entry->value)) {
    const auto found = std::find(names.begin(), names.end(), *word);
    if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  }
  std::string expected = "one of";
  for (std::string_view name : names)
    expected += (name == names.front() ? " \"" : ", \"") + std::string(name) + "\"";
  mismatch(*entry, expected);
  return std::nullopt;
}

Status OptionReader::finish() {
  for (const Entry& entry : entries_) {
    const auto is_known = [&](std::string_view key) {
      return std::find(known_keys_.begin(), known_keys_.end(), key) != known_keys_.end();
    };
    if (is_known(entry.key)) continue;
    const bool names_section =
        std::any_of(known_keys_.begin(), known_keys_.end(),
                    [&](const std::string& key) { return lies_in(key, entry.key); });
    if (names_section) {
      if (!std::holds_alternative<Section>(entry.value))
        mismatch(entry, "a section [" + entry.key + "]");
      continue;
    }
    // What lies in an unknown section, or below an option, is not reported again.
    const bool lies_in_reported =
        std::any_of(entries_.begin(), entries_.end(), [&](const Entry& other) {
          return lies_in(entry.key, other.key) &&
                 (is_known(other.key) ||
                  std::none_of(known_keys_.begin(), known_keys_.end(),
                               [&](const std::string& key) { return lies_in(key, other.key); }));
        });
    if (lies_in_reported) continue;
    std::string what = entry.where + ": unknown key";
    const auto nearest = std::min_element(
        known_keys_.begin(), known_keys_.end(), [&](const std::string& a, const std::string& b) {
          return edit_distance(a, entry.key) < edit_distance(b, entry.key);
        });
    constexpr std::size_t furthest_typo = 3;
    if (nearest != known_keys_.end() && edit_distance(*nearest, entry.key) <= furthest_typo)
      what += ", expected perhaps " + *nearest;
    else
      what += ", expected one that the commented example lists";
    problems_.push_back(what);
  }
  if (problems_.empty()) return {};
  std::string message;
  for (std::size_t i = 0; i < problems_.size() && i < max_problems_shown; ++i)
    message += (i == 0 ? "" : "; ") + problems_[i];
  if (problems_.size() > max_problems_shown)
    message += "; and " + std::to_string(problems_.size() - max_problems_shown) + " more";
  return Status(StatusCode::invalid_argument, one_line(std::move(message)));
}

}  // namespace terrace::config
