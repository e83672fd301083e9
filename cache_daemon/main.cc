// terraced: command line, log, signals; everything else is Daemon's.
#include <kj/async-unix.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string>

#include "cache_daemon/command_line.h"
#include "cache_daemon/daemon.h"
#include "core/bytes.h"

namespace terrace::daemon {
namespace {

void set_up_log(config::LogLevel level) {
  auto logger = spdlog::stderr_logger_mt("terraced");
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  logger->set_level(static_cast<spdlog::level::level_enum>(level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}
static_assert(static_cast<int>(config::LogLevel::trace) == SPDLOG_LEVEL_TRACE);
static_assert(static_cast<int>(config::LogLevel::error) == SPDLOG_LEVEL_ERROR);

kj::Promise<int> next_stop_signal(kj::UnixEventPort& port) {
  return port.onSignal(SIGTERM)
      .then([](siginfo_t&& info) { return info.si_signo; })
      .exclusiveJoin(port.onSignal(SIGINT).then([](siginfo_t&& info) { return info.si_signo; }));
}

// From here on a signal ends the process at once, whatever it is doing.
void stop_capturing_signals() {
  sigset_t stop;
  ::sigemptyset(&stop);
  for (const int number : {SIGTERM, SIGINT}) {
    std::signal(number, SIG_DFL);
    ::sigaddset(&stop, number);
  }
  ::pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);
}

// One line, whatever the message has in it.
int fail(std::string message) {
  std::ranges::replace(message, '\n', ' ');
  std::fprintf(stderr, "terraced: %s\n", message.c_str());
  return EXIT_FAILURE;
}
int fail(const Status& status) { return fail(status.message()); }

// Each client costs two or three descriptors, and many systems allow 1024 unless asked.
void allow_as_many_descriptors_as_may_be() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0)
    spdlog::warn("could not raise the limit of descriptors: {}", std::strerror(errno));
}

enum class DrainEnd { drained, gave_up, interrupted };

// Not even waiting for the engines' threads. The socket's file is gone since the drain began.
[[noreturn]] void leave_at_once(int status) {
  spdlog::default_logger()->flush();
  std::_Exit(status);
}

int run(const config::DaemonConfig& config) {
  set_up_log(config.log.level);
  allow_as_many_descriptors_as_may_be();
  // Before any thread is started, so that all inherit the mask.
  kj::UnixEventPort::captureSignal(SIGTERM);
  kj::UnixEventPort::captureSignal(SIGINT);
  auto io = kj::setupAsyncIo();
  auto daemon = Daemon::start(io, config);
  if (!daemon) return fail(daemon.error());
  spdlog::info("ready: version {}, boot {}, socket {}, data {}", version, (*daemon)->boot_id(),
               config.socket_path, config.data_dir);

  const int signal = next_stop_signal(io.unixEventPort).wait(io.waitScope);
  spdlog::info("stopping on {}; once more to stop at once",
               signal == SIGTERM ? "SIGTERM" : "SIGINT");
  const DrainEnd end =
      (*daemon)
          ->drain()
          .then([](bool drained) { return drained ? DrainEnd::drained : DrainEnd::gave_up; })
          .exclusiveJoin(
              next_stop_signal(io.unixEventPort).then([](int) { return DrainEnd::interrupted; }))
          .wait(io.waitScope);
  switch (end) {
    case DrainEnd::drained:
      break;
    case DrainEnd::gave_up:
      // An orderly stop, but the engines' threads may wait for a device that hangs.
      leave_at_once(EXIT_SUCCESS);
    case DrainEnd::interrupted:
      spdlog::warn("stopped without draining");
      leave_at_once(EXIT_FAILURE);
  }
  stop_capturing_signals();
  return EXIT_SUCCESS;
}

int parse_and_run(int argc, char** argv) {
  const auto choice = read_command_line(argc, argv);
  if (!choice) return fail(choice.error());
  if (const auto* answer = std::get_if<Answer>(&*choice)) {
    std::fputs(answer->text.c_str(), stdout);
    return EXIT_SUCCESS;
  }
  return run(std::get<config::DaemonConfig>(*choice));
}

}  // namespace
}  // namespace terrace::daemon

int main(int argc, char** argv) {
  using namespace terrace::daemon;
  try {
    return parse_and_run(argc, argv);
  } catch (const kj::Exception& exception) {
    return fail(std::string(exception.getDescription().cStr()));
  } catch (const std::exception& exception) {
    return fail(std::string(exception.what()));
  }
}
