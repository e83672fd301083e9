#include "inference/server/serve_command.h"

#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <ostream>
#include <utility>

#include "core/bytes.h"
#include "core/clock.h"
#include "inference/server/api_server.h"

namespace terrace::inference {

namespace {

// How long the end waits for the daemon to take in what was computed last.
constexpr std::chrono::milliseconds last_flush_limit{2000};

void log_to_standard_error(config::WorkerLogLevel level) {
  auto logger =
      std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_level(level == config::WorkerLogLevel::debug     ? spdlog::level::debug
                    : level == config::WorkerLogLevel::warning ? spdlog::level::warn
                                                               : spdlog::level::info);
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
}

kj::Promise<void> when_told_to_end(kj::UnixEventPort& port) {
  return port.onSignal(SIGTERM).ignoreResult().exclusiveJoin(port.onSignal(SIGINT).ignoreResult());
}

// Serves until a signal, and then as long as answers are under way and the drain's limit allows.
Status serve(kj::AsyncIoContext& io, ServerContext& context) {
  ApiServer server(context);
  const auto port = server.listen(io);
  if (!port) return port.error();
  spdlog::info("serving {}", context.model);
  spdlog::info("http: listening on {}", config::http_url(context.options.listen, *port));
  if (!context.options.listen.loopback && !context.keys.required())
    spdlog::warn("other machines reach this port, and no API key is asked for");
  when_told_to_end(io.unixEventPort).wait(io.waitScope);

  spdlog::info("ending: {} requests are under way", context.open_requests);
  server.drain()
      .exclusiveJoin(
          io.provider->getTimer().afterDelay(context.options.drain_ms * kj::MILLISECONDS))
      .exclusiveJoin(when_told_to_end(io.unixEventPort))
      .wait(io.waitScope);
  if (context.open_requests > 0) spdlog::warn("{} requests are cut off", context.open_requests);
  return {};
}

}  // namespace

ApiDefaults api_defaults(const config::WorkerConfig& config) {
  ApiDefaults defaults;
  defaults.max_tokens = static_cast<std::uint32_t>(config.max_tokens);
  defaults.sampling.temperature = config.sampling.temperature;
  defaults.sampling.top_k = static_cast<std::uint32_t>(config.sampling.top_k);
  defaults.sampling.top_p = config.sampling.top_p;
  defaults.sampling.seed = config.sampling.seed;
  return defaults;
}

int run_serve(ServeArguments arguments, std::ostream& err) {
  const auto fail = [&](const Status& status) {
    err << "terrace-worker serve: " << status.message() << std::endl;
    return 1;
  };
  // Before any other thread is there, so that none of them takes a signal.
  kj::UnixEventPort::captureSignal(SIGTERM);
  kj::UnixEventPort::captureSignal(SIGINT);
  log_to_standard_error(arguments.server.log_level);
  if (Status status = arguments.defaults.sampling.validate(); !status.ok()) return fail(status);
  ApiKeys keys;
  if (!arguments.server.api_key_file.empty()) {
    auto read = ApiKeys::read(arguments.server.api_key_file);
    if (!read) return fail(read.error());
    keys = std::move(*read);
  }
  arguments.engine.warn = [](const std::string& line) { spdlog::warn("{}", line); };
  arguments.engine.model.notice = [](const std::string& line) { spdlog::info("{}", line); };
  auto engine = Engine::load(arguments.engine);
  if (!engine) return fail(engine.error());

  const config::ServerOptions& options = arguments.server;
  const std::string model = options.model_name.empty()
                                ? std::filesystem::path(arguments.engine.model_path).stem().string()
                                : options.model_name;
  SchedulerOptions scheduling;
  scheduling.limits.max_sequences = static_cast<std::size_t>(options.max_sequences);
  scheduling.limits.max_queued = static_cast<std::size_t>(options.max_queued);
  scheduling.limits.pass_tokens = static_cast<std::size_t>(options.pass_tokens);
  scheduling.kv_memory_bytes = options.kv_memory_bytes;
  Status served;
  {
    auto io = kj::setupAsyncIo();
    CallBoard board;
    Scheduler scheduler(**engine, scheduling);
    CallPreparer preparer(**engine, scheduler, board, model, arguments.defaults);
    ServerContext context{.timer = io.provider->getTimer(),
                          .event_port = io.unixEventPort,
                          .scheduler = scheduler,
                          .board = board,
                          .preparer = preparer,
                          .options = options,
                          .keys = keys,
                          .model = model,
                          .context_length = (*engine)->model().config().context_length,
                          .started_unix_s = SystemClock().unix_ms() / 1000};
    served = serve(io, context);
  }
  if (!served.ok()) return fail(served);
  (*engine)->flush_cache(last_flush_limit);
  spdlog::info("ended");
  return 0;
}

}  // namespace terrace::inference
