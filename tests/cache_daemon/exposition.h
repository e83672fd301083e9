// Reads Prometheus' text format, strictly: what a careful reader would refuse, it refuses.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace terrace::daemon {

struct Exposition {
  // "name{label="value"}" as written, to its value.
  std::map<std::string, double> samples;
  std::map<std::string, std::string> types;  // of families
  // What is wrong with it; empty if nothing is.
  std::vector<std::string> problems;

  bool has(const std::string& sample) const { return samples.contains(sample); }
  double at(const std::string& sample) const {
    const auto found = samples.find(sample);
    return found == samples.end() ? -1 : found->second;
  }
};

Exposition read_exposition(const std::string& text);

}  // namespace terrace::daemon
