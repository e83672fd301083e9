// `terrace-worker serve`: OpenAI's API over HTTP, until SIGTERM or SIGINT.
#pragma once

#include <iosfwd>

#include "config/worker_config.h"
#include "inference/server/api_request.h"
#include "inference/worker/engine.h"

namespace terrace::inference {

struct ServeArguments {
  EngineOptions engine;
  config::ServerOptions server;
  ApiDefaults defaults;
};

ApiDefaults api_defaults(const config::WorkerConfig& config);

// Returns the exit status. Why it could not begin is one line on `err`; from then on the log goes
// to standard error. To be called before the process has other threads: signals are meant for this
// one.
int run_serve(ServeArguments arguments, std::ostream& err);

}  // namespace terrace::inference
