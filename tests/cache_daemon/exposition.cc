#include "tests/cache_daemon/exposition.h"

#include <cstdlib>
#include <regex>
#include <set>
#include <sstream>

namespace terrace::daemon {
namespace {

const std::regex comment("# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)");
const std::regex sample(
    R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{([a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+\})? (\+Inf|-?[0-9.]+(?:e[-+][0-9]+)?))re");

// The family that a sample belongs to.
std::string family_of(const std::string& name, const std::map<std::string, std::string>& types) {
  for (const char* suffix : {"_bucket", "_sum", "_count"})
    if (name.ends_with(suffix)) {
      const std::string base = name.substr(0, name.size() - std::string(suffix).size());
      if (const auto found = types.find(base); found != types.end() && found->second == "histogram")
        return base;
    }
  return name;
}

}  // namespace

Exposition read_exposition(const std::string& text) {
  Exposition read;
  std::set<std::string> helped, closed;
  std::string current;
  std::istringstream lines(text);
  double last_bucket = 0;
  std::string bucket_series;
  const auto problem = [&](const std::string& what, const std::string& line) {
    read.problems.push_back(what + ": " + line);
  };
  if (!text.ends_with('\n')) problem("the last line does not end", "");
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, comment)) {
      const std::string name = match[2];
      if (match[1] == "HELP") {
        if (!helped.insert(name).second) problem("a second HELP", line);
        if (!current.empty()) closed.insert(current);
        current = name;
        continue;
      }
      if (name != current) problem("a TYPE without its HELP", line);
      if (match[3] != "gauge" && match[3] != "counter" && match[3] != "histogram")
        problem("no such type", line);
      if (match[3] == "counter" && !name.ends_with("_total"))
        problem("a counter that does not end in _total", line);
      if (match[3] == "gauge" && name.ends_with("_total"))
        problem("a gauge that ends in _total", line);
      if (!read.types.emplace(name, match[3]).second) problem("a second TYPE", line);
      continue;
    }
    if (!std::regex_match(line, match, sample)) {
      problem("not a sample", line);
      continue;
    }
    const std::string name = match[1];
    const std::string family = family_of(name, read.types);
    if (family != current || closed.contains(family) || !read.types.contains(family))
      problem("not in its family", line);
    const double value = std::strtod(match[4].str().c_str(), nullptr);
    if (!read.samples.emplace(line.substr(0, line.rfind(' ')), value).second)
      problem("a second sample of the same name", line);
    if (name.ends_with("_bucket") && family != name) {
      const std::string labels = match[2];
      const std::string series = family + labels.substr(0, labels.find("le=\""));
      if (series == bucket_series && value < last_bucket)
        problem("a bucket below the one before", line);
      bucket_series = series;
      last_bucket = value;
    }
  }
  const std::string last_label = ",le=\"+Inf\"}";
  for (const auto& [name, value] : read.samples) {
    if (!name.ends_with(last_label)) continue;
    std::string count = name.substr(0, name.size() - last_label.size()) + "}";
    count.replace(count.find("_bucket{"), 8, "_count{");
    if (read.at(count) != value) problem("the last bucket is not the count", name);
  }
  return read;
}

}  // namespace terrace::daemon
