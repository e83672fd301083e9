// terrace-worker tokenize: the ids of texts, for people who compare implementations.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>

namespace terrace::inference {

struct TokenizeArguments {
  std::string model;     // a GGUF file; one without tensors is fine
  bool special = false;  // texts of special tokens become those tokens
  std::optional<std::string> text;
  std::optional<std::string> file;  // whose bytes are the text
  bool jsonl = false;               // `in` has JSON strings, one a line
};

// Prints the ids as one JSON array, with no BOS in front; with `jsonl` one array for each line of
// `in`, as soon as it is read. Without text, file and jsonl the text is all of `in`; at most one of
// them may be given. Returns the exit code: 0, or 1 after one line on `err` that says what is wrong
// (lines before a malformed one have been answered).
int run_tokenize(const TokenizeArguments& arguments, std::istream& in, std::ostream& out,
                 std::ostream& err);

}  // namespace terrace::inference
