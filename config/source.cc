#include "config/source.h"

// Lists and tables in each other. Nobody needs more, and the library takes them down recursively.
#define TOML_MAX_NESTED_VALUES 16
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <fstream>

namespace terrace::config {
namespace {

// Keys of Terrace's options need no quoting, so neither do those of --set.
bool is_dotted_key(std::string_view key) {
  if (key.empty() || key.front() == '.' || key.back() == '.') return false;
  if (key.find("..") != std::string_view::npos) return false;
  return std::all_of(key.begin(), key.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
  });
}

Value to_value(const toml::node& node) {
  if (node.is_table()) return Section{};
  if (const auto* flag = node.as_boolean()) return flag->get();
  if (const auto* integer = node.as_integer()) return integer->get();
  if (const auto* number = node.as_floating_point()) return number->get();
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* list = node.as_array()) {
    Texts texts;
    for (const toml::node& one : *list)
      if (const auto* text = one.as_string()) texts.push_back(text->get());
    if (texts.size() == list->size()) return texts;
  }
  return Unsupported{node.is_array() ? "a list" : "a date or time"};
}

void replace(std::vector<Entry>& entries, Entry entry) {
  const auto same = std::find_if(entries.begin(), entries.end(),
                                 [&](const Entry& other) { return other.key == entry.key; });
  if (same == entries.end())
    entries.push_back(std::move(entry));
  else
    *same = std::move(entry);
}

// `where` makes the place of a node; keys are given to it in full.
template <typename Where>
Status flatten(const std::string& key, const toml::node& node, const Where& where,
               std::size_t depth, std::vector<Entry>& entries) {
  if (!key.empty()) replace(entries, {key, to_value(node), where(key, node)});
  if (entries.size() > max_config_entries)
    return {StatusCode::invalid_argument, where(key, node) + ": found more than " +
                                              std::to_string(max_config_entries) +
                                              " keys, expected fewer"};
  const auto* const table = node.as_table();
  if (table == nullptr) return {};
  if (depth == max_config_depth)
    return {StatusCode::invalid_argument, where(key, node) + ": found more than " +
                                              std::to_string(max_config_depth) +
                                              " sections in each other, expected fewer"};
  for (const auto& [name, child] : *table) {
    const std::string child_key =
        key.empty() ? std::string(name.str()) : key + "." + std::string(name.str());
    if (Status status = flatten(child_key, child, where, depth + 1, entries); !status.ok())
      return status;
  }
  return {};
}

// The number of the first line that is longer than a line may be; 0 if there is none.
std::size_t overlong_line(std::string_view text) {
  for (std::size_t line = 1, begin = 0;; ++line) {
    const std::size_t end = text.find('\n', begin);
    if (std::min(end, text.size()) - begin > max_config_line_bytes) return line;
    if (end == std::string_view::npos) return 0;
    begin = end + 1;
  }
}

Result<std::string> read_file(const std::filesystem::path& path) {
  std::error_code failure;
  if (std::filesystem::is_directory(path, failure))
    return error(StatusCode::io_error, path.string() + " is a directory, not a configuration file");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) return error(errno_status(errno, "could not read " + path.string()));
  std::string text(max_config_file_bytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return error(errno_status(errno, "could not read " + path.string()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > max_config_file_bytes)
    return error(StatusCode::invalid_argument,
                 path.string() + " is larger than 1 MiB: not a configuration file");
  return text;
}

Result<toml::table> parse_file(const std::filesystem::path& path) {
  const Result<std::string> text = read_file(path);
  if (!text) return error(text.error());
  if (const std::size_t line = overlong_line(*text); line != 0)
    return error(StatusCode::invalid_argument, path.string() + ":" + std::to_string(line) +
                                                   ": does not parse: the line is longer than " +
                                                   std::to_string(max_config_line_bytes) +
                                                   " bytes");
  try {
    return toml::parse(*text, path.string());
  } catch (const toml::parse_error& problem) {
    return error(StatusCode::invalid_argument,
                 path.string() + ":" + std::to_string(problem.source().begin.line) +
                     ": does not parse: " + one_line(std::string(problem.description())));
  }
}

// The value of an override as a table {"value": …}.
Result<toml::table> parse_override(const Override& option) {
  toml::table as_text;
  as_text.insert("value", option.value);
  if (option.is_text) return as_text;
  if (overlong_line(option.value) != 0)
    return error(StatusCode::invalid_argument,
                 option.where + ": does not parse: it is longer than " +
                     std::to_string(max_config_line_bytes) + " bytes");
  try {
    toml::table parsed = toml::parse("value = " + option.value);
    // More than one key: the text had line breaks in it.
    return parsed.size() == 1 ? parsed : as_text;
  } catch (const toml::parse_error& problem) {
    // What starts as TOML was meant as TOML; all else is a bare word, such as 8GiB or a path.
    if (option.value.empty() ||
        std::string_view("\"'[{").find(option.value[0]) == std::string::npos)
      return as_text;
    return error(StatusCode::invalid_argument,
                 option.where + ": does not parse: " + std::string(problem.description()));
  }
}

}  // namespace

Result<Override> Override::set(std::string_view key_and_value) {
  const std::size_t equals = key_and_value.find('=');
  const std::string_view key = key_and_value.substr(0, equals);
  if (equals == std::string_view::npos || !is_dotted_key(key))
    return error(StatusCode::invalid_argument,
                 "--set: found '" + std::string(key_and_value) +
                     "', expected key=value such as device.capacity=2GiB");
  Override option;
  option.key = key;
  option.value = key_and_value.substr(equals + 1);
  option.where = "--set " + option.key;
  return option;
}

Override Override::flag(std::string_view flag, std::string_view key, std::string_view text) {
  Override option;
  option.key = key;
  option.value = text;
  option.where = flag;
  option.is_text = true;
  return option;
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  return text;
}

std::string describe(const Value& value) {
  struct Describer {
    std::string operator()(Section) const { return "a section"; }
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(std::int64_t number) const {
      return "the number " + std::to_string(number);
    }
    std::string operator()(double number) const {
      std::ostringstream text;
      text << "the number " << number;
      return text.str();
    }
    std::string operator()(const std::string& text) const {
      if (text.size() <= max_quoted_bytes) return "the text '" + text + "'";
      return "a text of " + std::to_string(text.size()) + " bytes";
    }
    std::string operator()(const Texts& texts) const {
      return "a list of " + std::to_string(texts.size()) + " texts";
    }
    std::string operator()(const Unsupported& other) const { return other.name; }
  };
  return std::visit(Describer(), value);
}

Result<std::vector<Entry>> read_entries(const std::optional<std::filesystem::path>& file,
                                        std::span<const Override> overrides) {
  std::vector<Entry> entries;
  if (file) {
    const Result<toml::table> table = parse_file(*file);
    if (!table) return error(table.error());
    const auto where = [&](const std::string& key, const toml::node& node) {
      return file->string() + ":" + std::to_string(node.source().begin.line) + ": " + one_line(key);
    };
    if (Status status = flatten("", *table, where, 0, entries); !status.ok()) return error(status);
  }
  for (const Override& option : overrides) {
    const Result<toml::table> table = parse_override(option);
    if (!table) return error(table.error());
    const auto where = [&](const std::string& key, const toml::node&) {
      return key == option.key ? option.where : option.where + ": " + key;
    };
    if (Status status = flatten(option.key, *table->get("value"), where, 0, entries); !status.ok())
      return error(status);
  }
  return entries;
}

}  // namespace terrace::config
