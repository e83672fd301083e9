// terraced: command line, log, signals; everything else is Daemon's.
#include <kj/async-unix.h>
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
#include "cache_daemon/log.h"
#include "cache_daemon/reload.h"
#include "cache_daemon/service_manager.h"
#include "core/bytes.h"

namespace terrace::daemon {
namespace {

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

std::string joined(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

// What the process does beside serving, for as long as it does.
class Housekeeping final : private kj::TaskSet::ErrorHandler {
 public:
  // All of these outlive it.
  Housekeeping(kj::AsyncIoContext& io, Daemon& daemon, const ServiceManager& manager,
               Options& options, int argc, char** argv)
      : io_(io),
        daemon_(daemon),
        manager_(manager),
        options_(options),
        argc_(argc),
        argv_(argv),
        tasks_(*this) {
    tasks_.add(reload_forever());
    if (manager.alive_interval()) tasks_.add(say_alive_forever());
  }

 private:
  kj::Promise<void> reload_forever() {
    return io_.unixEventPort.onSignal(SIGHUP).then([this](siginfo_t&&) {
      if (!daemon_.draining()) {
        manager_.reloading();
        reload();
        manager_.ready();
      }
      return reload_forever();
    });
  }

  void reload() {
    const auto choice = read_command_line(argc_, argv_);
    if (!choice || !std::holds_alternative<Options>(*choice)) {
      spdlog::error("SIGHUP: everything stays as it is: {}",
                    choice ? "no options" : choice.error().message());
      return;
    }
    const Options& wanted = std::get<Options>(*choice);
    auto access = AccessPolicy::load(access_to_take_over(options_.config, wanted.config));
    if (!access) {
      spdlog::error("SIGHUP: everything stays as it is: {}", access.error().message());
      return;
    }
    const Reload reload = take_over(options_, wanted);
    daemon_.take_over(options_.config, std::move(*access));
    set_log_level(options_.config.log.level);
    spdlog::info("SIGHUP: {}", reload.applied.empty() ? "nothing to take over"
                                                      : "took over " + joined(reload.applied));
    if (!reload.at_next_start.empty())
      spdlog::warn("SIGHUP: takes effect at the next start only: {}", joined(reload.at_next_start));
  }

  kj::Promise<void> say_alive_forever() {
    manager_.alive();
    return io_.provider->getTimer()
        .afterDelay(manager_.alive_interval()->count() * kj::MICROSECONDS)
        .then([this] { return say_alive_forever(); });
  }

  void taskFailed(kj::Exception&& exception) override {
    spdlog::error("housekeeping failed: {}", exception.getDescription().cStr());
  }

  kj::AsyncIoContext& io_;
  Daemon& daemon_;
  const ServiceManager& manager_;
  Options& options_;
  int argc_;
  char** argv_;
  kj::TaskSet tasks_;
};

int run(Options options, int argc, char** argv) {
  const config::DaemonConfig& config = options.config;
  set_up_log(config.log);
  const ServiceManager manager = ServiceManager::from_environment();
  allow_as_many_descriptors_as_may_be();
  // Before any thread is started, so that all inherit the mask.
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) kj::UnixEventPort::captureSignal(number);
  auto io = kj::setupAsyncIo();
  auto daemon = Daemon::start(io, config);
  if (!daemon) return fail(daemon.error());
  const Housekeeping housekeeping(io, **daemon, manager, options, argc, argv);
  spdlog::info("ready: version {}, boot {}, socket {}, data {}", version, (*daemon)->boot_id(),
               config.socket_path, config.data_dir);
  manager.ready();

  const int signal = next_stop_signal(io.unixEventPort).wait(io.waitScope);
  spdlog::info("stopping on {}; once more to stop at once",
               signal == SIGTERM ? "SIGTERM" : "SIGINT");
  manager.stopping();
  const DrainEnd end =
      (*daemon)
          ->drain(manager)
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
  const Options& options = std::get<Options>(*choice);
  if (options.verify) {
    set_up_log(options.config.log);
    return verify_stores(options.config, *options.verify);
  }
  return run(options, argc, argv);
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
