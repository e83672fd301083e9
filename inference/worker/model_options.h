// The command-line options of a model, the same for every program that runs one.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "inference/model/llama.h"

namespace terrace::inference {

// Adds --model (required; it is returned), --compute, --kv, --threads and --isa. `path` and
// `options` must outlive the parsing.
CLI::Option* add_model_options(CLI::App& command, std::string& path, ModelOptions& options);

// The same without --model.
void add_compute_options(CLI::App& command, ModelOptions& options);

// Adds --backend.
void add_backend_option(CLI::App& command, ModelOptions& options);

}  // namespace terrace::inference
