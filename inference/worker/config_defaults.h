// A configuration file under the flags of the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "config/worker_config.h"
#include "core/status.h"
#include "inference/worker/generate_command.h"

namespace terrace::inference {

// Sets what of `engine` `command` was not given a flag for.
void apply_engine_config(const config::WorkerConfig& config, const CLI::App& command,
                         EngineOptions& engine);

// Reads the file (config/worker.toml lists its options) and sets whatever `command` was not given a
// flag for. Call it after parsing. An error names the file and the line.
Status apply_config_defaults(const std::string& path, const CLI::App& command,
                             GenerateArguments& arguments);

}  // namespace terrace::inference
