// `terrace-worker generate`: one prompt, one answer.
#pragma once

#include <iosfwd>
#include <optional>
#include <string>

#include "inference/worker/engine.h"

namespace terrace::inference {

struct GenerateArguments {
  EngineOptions engine;
  GenerateOptions generate;
  std::optional<std::string> prompt, prompt_file, system,
      system_file;  // a file named "-" is standard input
  bool raw = false;
  bool json = false;
  bool show_progress = false;  // of loading the model, on `err`: for a terminal
};

// Returns the exit status. Text or one JSON object goes to `out`; one line about what went wrong,
// and progress if asked for, to `err`.
int run_generate(GenerateArguments arguments, std::istream& in, std::ostream& out,
                 std::ostream& err);

}  // namespace terrace::inference
