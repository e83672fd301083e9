// The program's verbs and options as its parser has them: what completions and the manual are made
// of, so that neither can lack one.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace terrace::cli {

struct CommandOption {
  std::string name;  // "--json", or "key" of a positional one
  std::string about;
  std::string value;                 // what it takes: "N", "FILE"; "" for a flag
  std::vector<std::string> choices;  // if it takes one of few words
  std::string environment;           // the variable that stands for it, if there is one
  bool positional = false, required = false;
};

struct Command {
  std::string path;  // "terrace config check"
  std::string name;  // "check"
  std::string about;
  std::vector<CommandOption> options;  // without those of the commands above
  std::vector<std::string> verbs;      // below it
};

// The whole program first, then each verb, those below a verb right behind it.
std::vector<Command> command_tree(const CLI::App& program);

}  // namespace terrace::cli
