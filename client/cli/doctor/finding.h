// What `terrace doctor` found in one place.
#pragma once

#include <string>
#include <vector>

namespace terrace::cli::doctor {

enum class Severity {
  ok,
  warning,  // it works, but slower, or something may be meant otherwise
  problem   // it does not work
};

struct Finding {
  std::string check;  // one word
  Severity severity = Severity::ok;
  std::string what;    // a sentence for people
  std::string advice;  // what to do; empty where nothing is to be done
};
using Findings = std::vector<Finding>;

}  // namespace terrace::cli::doctor
