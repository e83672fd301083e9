// `terrace-worker logits`: the logits after given tokens, for people who compare implementations.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "inference/model/llama.h"

namespace terrace::inference {

struct LogitsArguments {
  std::string model;   // a GGUF file
  std::string tokens;  // "1,2,3", with commas, blanks or as a JSON array; "-" reads them from `in`
  std::uint32_t top = 10;
  ModelOptions options;
};

// Prints {"top": [[id, logit], ...], "mean": ..., "std": ...} of the last position as one line to
// `out`: the `top` highest, the lowest id first among equals, and mean and standard deviation over
// the whole vocabulary. Returns the exit status; errors are one line on `err`.
int run_logits(const LogitsArguments& arguments, std::istream& in, std::ostream& out,
               std::ostream& err);

}  // namespace terrace::inference
