// terraced as an object: serves one cache on Unix sockets, from one event loop.
#pragma once

#include <kj/async-io.h>
#include <kj/function.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cache_daemon/access_policy.h"
#include "cache_daemon/connection.h"
#include "cache_daemon/context.h"
#include "cache_daemon/device_tier.h"
#include "cache_daemon/engines.h"
#include "cache_daemon/http/http_server.h"
#include "cache_daemon/http/site.h"
#include "cache_daemon/listening_socket.h"
#include "cache_daemon/remote_entrance.h"
#include "cache_daemon/service_manager.h"
#include "core/unique_fd.h"

namespace terrace::daemon {

class Daemon final : private kj::TaskSet::ErrorHandler {
 public:
  // Recovers the cache, then listens. The loop must be the calling thread's, and outlive the
  // daemon, as must `config`.
  static Result<std::unique_ptr<Daemon>> start(kj::AsyncIoContext& io,
                                               const config::DaemonConfig& config);
  ~Daemon();

  const std::string& boot_id() const { return context_.boot_id; }

  // Stops listening, removes the sockets' files and lets what only memory holds go to disk. True
  // when that is done; false when its deadline has passed first, and then a disk that hangs may
  // hold the destructor up without a bound. Clients that are connected keep being served meanwhile.
  // `manager` is told how far it is.
  kj::Promise<bool> drain(const ServiceManager& manager);

  // Since drain() was called.
  bool draining() const { return context_.draining; }

  // Takes over from `config` the tenants' quotas, as far as the cache knows them by name, and how
  // old blocks may become; and who may do what: a connection whose login would not be given the
  // same now is cut. Reads the files of TLS again.
  void take_over(const config::DaemonConfig& config, AccessPolicy access);

 private:
  struct NamedSocket {
    std::string name;
    ListeningSocket socket;
  };
  struct Listener {
    std::string name;
    ListeningSocket socket;
    kj::Own<kj::ConnectionReceiver> receiver;
    kj::Maybe<kj::Promise<void>> accepting;
  };

  Daemon(kj::AsyncIoContext& io, const config::DaemonConfig& config,
         std::unique_ptr<Engines> engines, std::unique_ptr<DeviceTier> device, std::string boot_id,
         AccessPolicy access, std::vector<NamedSocket> sockets);

  // Whether `turn` came to its end. One that throws is logged and must not end what comes after it:
  // accepting, completions and ticks go on for as long as the daemon runs.
  bool run_turn(const char* what, kj::FunctionParam<void()> turn);
  kj::Promise<void> accept_next(Listener& listener);
  void serve(kj::Own<kj::AsyncIoStream> stream, Credentials credentials);
  Status open_entrance();
  kj::Promise<void> tick_forever();
  kj::Promise<void> run_completions_forever();
  kj::Promise<bool> report_drain_progress(const ServiceManager& manager);
  void taskFailed(kj::Exception&& exception) override;

  kj::AsyncIoContext& io_;
  const config::DaemonConfig& config_;
  // Engines wake the loop through it, from threads of theirs: it must outlive them.
  UniqueFd wake_fd_;
  kj::Own<kj::UnixEventPort::FdObserver> wake_observer_;
  std::unique_ptr<Engines> engines_;
  std::unique_ptr<DeviceTier> device_;
  SessionTable sessions_;
  DeadlineTimer deadlines_;
  AccessPolicy access_;
  Context context_;
  kj::TaskSet tasks_;
  std::optional<kj::TaskSet> connections_;  // there until the destructor
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::unique_ptr<RemoteEntrance> entrance_;  // null: off
  Site site_;
  HttpServer http_;
};

}  // namespace terrace::daemon
