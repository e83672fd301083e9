#include "cache_daemon/daemon.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cache_daemon/limits.h"
#include "core/bytes.h"
#include "protocol/kj_time.h"

namespace terrace::daemon {
namespace {

using protocol::kj_duration;

std::string random_boot_id() {
  std::array<std::uint8_t, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    spdlog::warn("getrandom failed: this boot has no id of its own");
  return to_hex(bytes);
}

}  // namespace

Result<std::unique_ptr<Daemon>> Daemon::start(kj::AsyncIoContext& io,
                                              const config::DaemonConfig& config) {
  auto access = AccessPolicy::load(config.access);
  if (!access) return error(access.error());
  // The sockets first: the main one is what tells two daemons apart before either touches anything.
  std::vector<NamedSocket> sockets;
  const auto listen = [&](const std::string& name, const std::string& path,
                          const config::SocketPermissions& permissions) -> Status {
    auto socket = ListeningSocket::open(path, permissions);
    if (!socket) return socket.error();
    sockets.push_back({name, std::move(*socket)});
    return {};
  };
  Status status = listen(config::main_socket_name, config.socket_path, config.access.socket);
  for (const config::SocketOptions& more : config.access.more_sockets)
    if (status.ok()) status = listen(more.name, more.path, more.permissions);
  if (!status.ok()) return error(std::move(status));
  auto engines = open_engines(config);
  if (!engines) return error(engines.error());
  std::string boot_id = random_boot_id();
  auto device =
      std::make_unique<DeviceTier>(config, *(*engines)->accelerator, *(*engines)->cache, boot_id);
  if (status = device->start(); !status.ok()) return error(std::move(status));
  std::unique_ptr<Daemon> daemon(new Daemon(io, config, std::move(*engines), std::move(device),
                                            std::move(boot_id), std::move(*access),
                                            std::move(sockets)));
  if (status = daemon->open_entrance(); !status.ok()) return error(std::move(status));
  return daemon;
}

Daemon::Daemon(kj::AsyncIoContext& io, const config::DaemonConfig& config,
               std::unique_ptr<Engines> engines, std::unique_ptr<DeviceTier> device,
               std::string boot_id, AccessPolicy access, std::vector<NamedSocket> sockets)
    : io_(io),
      config_(config),
      wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      wake_observer_(kj::heap<kj::UnixEventPort::FdObserver>(
          io.unixEventPort, wake_fd_.get(), kj::UnixEventPort::FdObserver::OBSERVE_READ)),
      engines_(std::move(engines)),
      device_(std::move(device)),
      sessions_(*engines_->cache, config.limits),
      deadlines_(io.provider->getTimer(), *engines_->cache, engines_->clock),
      access_(std::move(access)),
      context_{.config = config,
               .cache = *engines_->cache,
               .access = access_,
               .sessions = sessions_,
               .deadlines = deadlines_,
               .device = *device_,
               .event_port = io.unixEventPort,
               .boot_id = std::move(boot_id),
               .started = std::chrono::steady_clock::now(),
               .started_unix_ms = engines_->clock.unix_ms()},
      tasks_(*this),
      connections_(std::in_place, static_cast<kj::TaskSet::ErrorHandler&>(*this)),
      site_(context_),
      http_(io, config.http, [this](kj::StringPtr path) { return site_.answer(path); }) {
  if (config.http.listen &&
      std::ranges::any_of(config.access.rules,
                          [](const config::AccessRule& rule) { return !rule.tenant.empty(); }))
    spdlog::warn(
        "rules of [access] name tenants, but HTTP shows everybody on this host what all of them "
        "have cached: http.listen = \"off\" ends that");
  engines_->cache->set_wake([fd = wake_fd_.get()] {
    const std::uint64_t one = 1;
    // Fails only if the counter is full, and then the loop is awake already.
    [[maybe_unused]] const ssize_t written = ::write(fd, &one, sizeof one);
  });
  tasks_.add(run_completions_forever());
  tasks_.add(tick_forever());
  for (NamedSocket& socket : sockets) {
    const int fd = socket.socket.fd();
    auto listener = std::make_unique<Listener>(
        Listener{std::move(socket.name), std::move(socket.socket),
                 io.lowLevelProvider->wrapListenSocketFd(
                     fd, kj::LowLevelAsyncIoProvider::ALREADY_CLOEXEC |
                             kj::LowLevelAsyncIoProvider::ALREADY_NONBLOCK),
                 nullptr});
    listener->accepting = accept_next(*listener).eagerlyEvaluate(
        [](kj::Exception&& e) { spdlog::error("accepting ended: {}", e.getDescription().cStr()); });
    listeners_.push_back(std::move(listener));
  }
}

Daemon::~Daemon() {
  listeners_.clear();
  entrance_.reset();
  connections_.reset();
  // What connections leave to the loop ends in its next turns: the calls that were under way, which
  // refer to all that is here.
  io_.waitScope.poll();
}

bool Daemon::run_turn(const char* what, kj::FunctionParam<void()> turn) {
  KJ_IF_MAYBE (exception, kj::runCatchingExceptions([&] { turn(); })) {
    spdlog::error("{} failed: {}", what, exception->getDescription().cStr());
    return false;
  }
  return true;
}

kj::Promise<void> Daemon::accept_next(Listener& listener) {
  return listener.receiver->acceptAuthenticated().then(
      [this, &listener](kj::AuthenticatedStream&& stream) -> kj::Promise<void> {
        const int fd = stream.stream->getFd().orDefault(-1);
        serve(kj::mv(stream.stream), local_credentials(fd, listener.name));
        return accept_next(listener);
      },
      [this, &listener](kj::Exception&& exception) -> kj::Promise<void> {
        spdlog::warn("could not accept a connection: {}", exception.getDescription().cStr());
        return io_.provider->getTimer()
            .afterDelay(kj_duration(accept_pause))
            .then([this, &listener] { return accept_next(listener); });
      });
}

void Daemon::serve(kj::Own<kj::AsyncIoStream> stream, Credentials credentials) {
  const std::size_t most = config_.limits.max_connections;
  if (context_.connections >= most) {
    spdlog::warn("refusing a connection: limits.max_connections = {}", most);
    return;
  }
  if (!credentials.local() &&
      context_.strangers >= std::max<std::size_t>(most / strangers_divisor, 1)) {
    spdlog::warn("refusing a connection of {}: {} over TCP have not logged in yet",
                 credentials.address, context_.strangers);
    return;
  }
  run_turn("opening a connection", [&] {
    auto connection = kj::heap<Connection>(context_, kj::mv(stream), std::move(credentials));
    auto over = connection->when_over();
    connections_->add(over.attach(kj::mv(connection)));
  });
}

Status Daemon::open_entrance() {
  if (!config_.tcp.listen) return {};
  auto entrance = RemoteEntrance::open(
      io_, config_.tcp, config_.limits.max_connections, config_.limits.login_deadline,
      [this](RemoteEntrance::Arrival arrival) {
        run_turn("taking a connection over TCP", [&] {
          using Provider = kj::LowLevelAsyncIoProvider;
          auto stream = io_.lowLevelProvider->wrapUnixSocketFd(
              arrival.stream.release(),
              Provider::TAKE_OWNERSHIP | Provider::ALREADY_CLOEXEC | Provider::ALREADY_NONBLOCK);
          Credentials credentials;
          credentials.certificate = std::move(arrival.certificate);
          credentials.address = std::move(arrival.address);
          serve(kj::mv(stream), std::move(credentials));
        });
      });
  if (!entrance) return entrance.error();
  entrance_ = std::move(*entrance);
  return {};
}

void Daemon::take_over(const config::DaemonConfig& config, AccessPolicy access) {
  engines_->cache->set_quotas(tenant_quotas(config));
  engines_->cache->set_max_ages(space_ages(config));
  access_ = std::move(access);
  for (Peer* const peer : context_.peers) {
    if (!peer->grant) continue;
    const auto now = access_.login(peer->credentials, peer->token);
    if (now && now->gives_the_same_as(*peer->grant)) continue;
    spdlog::info(
        "cutting the connection of {}: the rules of [access] do not give its login the "
        "same any more",
        peer->name());
    peer->cut.fulfiller->fulfill();
  }
  if (entrance_) entrance_->read_files_again();
}

kj::Promise<void> Daemon::run_completions_forever() {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = ::read(wake_fd_.get(), &count, sizeof count);
  // What a turn that failed has left is not announced again.
  if (!run_turn("running completions", [this] { engines_->cache->run_completions(); }))
    return io_.provider->getTimer().afterDelay(kj_duration(tick_interval)).then([this] {
      return run_completions_forever();
    });
  // A wake from here on is a new edge, which the observer sees when the loop polls next.
  return wake_observer_->whenBecomesReadable().then([this] { return run_completions_forever(); });
}

kj::Promise<void> Daemon::tick_forever() {
  return io_.provider->getTimer().afterDelay(kj_duration(tick_interval)).then([this] {
    run_turn("work by time", [this] { engines_->cache->tick(); });
    run_turn("noting how it goes", [this] { site_.tick(); });
    run_turn("looking for the device tier", [this] { device_->retry(); });
    return tick_forever();
  });
}

kj::Promise<bool> Daemon::drain(const ServiceManager& manager) {
  context_.draining = true;
  listeners_.clear();
  if (entrance_) entrance_->close();

  auto done = kj::newPromiseAndFulfiller<void>();
  auto fulfiller = std::make_shared<kj::Own<kj::PromiseFulfiller<void>>>(kj::mv(done.fulfiller));
  engines_->cache->drain([fulfiller] { (*fulfiller)->fulfill(); });
  spdlog::info("draining: {} blocks are not on disk yet", engines_->cache->drain_blocks_left());

  auto finished = done.promise.then([] {
    spdlog::info("drained: everything is on disk");
    return true;
  });
  auto deadline =
      io_.provider->getTimer().afterDelay(kj_duration(config_.drain_deadline)).then([this] {
        spdlog::warn("gave up draining after {} s: {} blocks are lost",
                     config_.drain_deadline.count(), engines_->cache->drain_blocks_left());
        return false;
      });
  return finished.exclusiveJoin(kj::mv(deadline)).exclusiveJoin(report_drain_progress(manager));
}

kj::Promise<bool> Daemon::report_drain_progress(const ServiceManager& manager) {
  const std::size_t left = engines_->cache->drain_blocks_left();
  manager.status("draining: " + std::to_string(left) + " blocks left");
  return io_.provider->getTimer()
      .afterDelay(kj_duration(drain_progress_interval))
      .then([this, &manager] {
        spdlog::info("draining: {} blocks left", engines_->cache->drain_blocks_left());
        return report_drain_progress(manager);
      });
}

void Daemon::taskFailed(kj::Exception&& exception) {
  spdlog::error("a task of the event loop failed: {}", exception.getDescription().cStr());
}

}  // namespace terrace::daemon
