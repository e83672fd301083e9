#include "cache_daemon/remote_entrance.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "cache_daemon/limits.h"
#include "cache_daemon/tcp_listener.h"
#include "protocol/tls_files.h"

namespace terrace::daemon {
namespace {

constexpr int tcp_backlog = 128;
// What is on its way between a client and the deciding thread, each way, beside the sockets' own.
constexpr std::size_t pump_bytes = 64 * 1024;
// A host that has lost its power is noticed within two minutes: its session holds leases.
constexpr int keepalive_idle_s = 60, keepalive_interval_s = 15, keepalive_probes = 4;

void signal_eventfd(const UniqueFd& fd) {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(fd.get(), &one, sizeof one);
}

void drain_eventfd(const UniqueFd& fd) {
  std::uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = ::read(fd.get(), &count, sizeof count);
}

Result<kj::Own<kj::TlsContext>> make_tls(const config::TcpOptions& options, kj::Timer& timer,
                                         std::chrono::milliseconds limit) {
  return protocol::make_tls_server({.ca_file = options.client_ca_file,
                                    .certificate_file = options.certificate_file,
                                    .key_file = options.key_file},
                                   timer, limit.count() * kj::MILLISECONDS);
}

kj::Promise<void> pump(kj::AsyncIoStream& from, kj::AsyncIoStream& to, kj::Array<kj::byte> buffer) {
  auto* const at = buffer.begin();
  const std::size_t room = buffer.size();
  return from.tryRead(at, 1, room)
      .then([&from, &to, buffer = kj::mv(buffer)](std::size_t got) mutable -> kj::Promise<void> {
        if (got == 0) return kj::READY_NOW;
        auto* const bytes = buffer.begin();
        return to.write(bytes, got).then([&from, &to, buffer = kj::mv(buffer)]() mutable {
          return pump(from, to, kj::mv(buffer));
        });
      });
}

}  // namespace

// Everything that lives on the entrance's thread.
class RemoteEntrance::Server final : private kj::TaskSet::ErrorHandler {
 public:
  Server(RemoteEntrance& entrance, kj::AsyncIoContext& io, kj::Own<kj::TlsContext> tls)
      : entrance_(entrance),
        io_(io),
        tls_(hold(kj::mv(tls))),
        receiver_(io.lowLevelProvider->wrapListenSocketFd(
            entrance.listening_.get(), kj::LowLevelAsyncIoProvider::ALREADY_CLOEXEC |
                                           kj::LowLevelAsyncIoProvider::ALREADY_NONBLOCK)),
        control_(io.unixEventPort, entrance.control_fd_.get(),
                 kj::UnixEventPort::FdObserver::OBSERVE_READ),
        connections_(*this) {}

  void run() {
    accepting_ = accept_next().eagerlyEvaluate([](kj::Exception&& e) {
      spdlog::error("accepting over TCP ended: {}", e.getDescription().cStr());
    });
    for (;;) {
      control_.whenBecomesReadable().wait(io_.waitScope);
      drain_eventfd(entrance_.control_fd_);
      bool files_changed = false;
      {
        const std::scoped_lock lock(entrance_.mutex_);
        if (!entrance_.running_) return;
        if (!entrance_.accepting_) {
          accepting_ = nullptr;
          receiver_ = nullptr;
          entrance_.listening_.reset();
        }
        files_changed = std::exchange(entrance_.files_changed_, false);
      }
      if (files_changed) read_files_again();
    }
  }

 private:
  // Connections keep the one that they began with.
  using Tls = std::shared_ptr<kj::Own<kj::TlsContext>>;
  static Tls hold(kj::Own<kj::TlsContext> tls) {
    if (tls.get() == nullptr) return nullptr;
    return std::make_shared<kj::Own<kj::TlsContext>>(kj::mv(tls));
  }

  void read_files_again() {
    if (!tls_) return;
    auto made =
        make_tls(entrance_.options_.tcp, io_.provider->getTimer(), entrance_.options_.limit);
    if (!made) {
      spdlog::error("TLS stays as it is: {}", made.error().message());
      return;
    }
    tls_ = hold(kj::mv(*made));
    spdlog::info("TLS: read certificates and key again");
  }

  kj::Promise<void> accept_next() {
    return receiver_->acceptAuthenticated().then(
        [this](kj::AuthenticatedStream&& stream) {
          if (open_ >= entrance_.options_.max_connections) {
            spdlog::warn("refusing a connection over TCP: limits.max_connections = {}",
                         entrance_.options_.max_connections);
          } else if (handshakes_ >= max_handshakes_at_once) {
            spdlog::warn("refusing a connection over TCP: {} handshakes are under way",
                         handshakes_);
          } else {
            connections_.add(kj::evalNow([&] { return serve(kj::mv(stream)); }));
          }
          return accept_next();
        },
        [this](kj::Exception&& exception) {
          spdlog::warn("could not accept over TCP: {}", exception.getDescription().cStr());
          return io_.provider->getTimer()
              .afterDelay(accept_pause.count() * kj::MILLISECONDS)
              .then([this] { return accept_next(); });
        });
  }

  kj::Promise<void> serve(kj::AuthenticatedStream stream) {
    ++open_;
    auto closed = kj::defer([this] { --open_; });
    const int on = 1;
    stream.stream->setsockopt(IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    stream.stream->setsockopt(SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    stream.stream->setsockopt(IPPROTO_TCP, TCP_KEEPIDLE, &keepalive_idle_s,
                              sizeof keepalive_idle_s);
    stream.stream->setsockopt(IPPROTO_TCP, TCP_KEEPINTVL, &keepalive_interval_s,
                              sizeof keepalive_interval_s);
    stream.stream->setsockopt(IPPROTO_TCP, TCP_KEEPCNT, &keepalive_probes, sizeof keepalive_probes);
    const std::string address = stream.peerIdentity->toString().cStr();
    if (!tls_) return hand_over(kj::mv(stream.stream), "", address).attach(kj::mv(closed));
    ++handshakes_;
    return (*tls_)
        ->wrapServer(kj::mv(stream))
        .attach(kj::defer([this] { --handshakes_; }))
        .then([this, address](kj::AuthenticatedStream&& secure) {
          auto& identity = kj::downcast<kj::TlsPeerIdentity>(*secure.peerIdentity);
          std::string name;
          if (identity.hasCertificate()) {
            const kj::String common = identity.getCommonName();  // a zero byte is part of it
            name.assign(common.begin(), common.size());
          }
          return hand_over(kj::mv(secure.stream), std::move(name), address);
        })
        .attach(kj::mv(closed), Tls(tls_));
  }

  kj::Promise<void> hand_over(kj::Own<kj::AsyncIoStream> outside, std::string certificate,
                              std::string address) {
    std::array<int, 2> pair{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair.data()) != 0) {
      spdlog::warn("refusing {}: no socket for it", address);
      return kj::READY_NOW;
    }
    using Provider = kj::LowLevelAsyncIoProvider;
    auto inside = io_.lowLevelProvider->wrapSocketFd(
        pair[1], Provider::TAKE_OWNERSHIP | Provider::ALREADY_CLOEXEC | Provider::ALREADY_NONBLOCK);
    entrance_.post({UniqueFd(pair[0]), std::move(certificate), std::move(address)});
    // The daemon ends a connection by closing its end; a client that has said all it wants still
    // gets the answers.
    auto in = pump(*outside, *inside, kj::heapArray<kj::byte>(pump_bytes))
                  .then([&to_daemon = *inside]() -> kj::Promise<void> {
                    to_daemon.shutdownWrite();
                    return kj::NEVER_DONE;
                  });
    auto out = pump(*inside, *outside, kj::heapArray<kj::byte>(pump_bytes));
    // Who does not take what is left once the daemon has hung up must not keep a place.
    auto given_up = inside->whenWriteDisconnected().then([this] {
      return io_.provider->getTimer().afterDelay(entrance_.options_.limit.count() *
                                                 kj::MILLISECONDS);
    });
    return out.exclusiveJoin(kj::mv(in))
        .exclusiveJoin(kj::mv(given_up))
        .attach(kj::mv(inside), kj::mv(outside));
  }

  void taskFailed(kj::Exception&& exception) override {
    // Strangers must not fill the log.
    spdlog::debug("a connection over TCP ended: {}", exception.getDescription().cStr());
  }

  RemoteEntrance& entrance_;
  kj::AsyncIoContext& io_;
  Tls tls_;
  kj::Own<kj::ConnectionReceiver> receiver_;
  kj::UnixEventPort::FdObserver control_;
  std::size_t open_ = 0, handshakes_ = 0;
  kj::TaskSet connections_;
  kj::Maybe<kj::Promise<void>> accepting_;
};

Result<std::unique_ptr<RemoteEntrance>> RemoteEntrance::open(kj::AsyncIoContext& io,
                                                             const config::TcpOptions& options,
                                                             std::size_t max_connections,
                                                             std::chrono::milliseconds limit,
                                                             kj::Function<void(Arrival)> arrived) {
  auto listener = listen_on(*options.listen, tcp_backlog);
  if (!listener)
    return error(listener.error().with_context("tcp.listen: " + options.listen->host + " port " +
                                               std::to_string(options.listen->port)));
  std::unique_ptr<RemoteEntrance> entrance(new RemoteEntrance(io, {options, max_connections, limit},
                                                              std::move(listener->fd),
                                                              listener->port, kj::mv(arrived)));
  if (Status status = entrance->start(io.provider->getTimer()); !status.ok())
    return error(std::move(status));
  spdlog::info("{} on {} port {}", options.plain ? "TCP without TLS" : "TLS", options.listen->host,
               listener->port);
  return entrance;
}

RemoteEntrance::RemoteEntrance(kj::AsyncIoContext& io, Options options, UniqueFd listening,
                               std::uint16_t port, kj::Function<void(Arrival)> arrived)
    : options_(options),
      listening_(std::move(listening)),
      port_(port),
      arrived_(kj::mv(arrived)),
      arrivals_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      control_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      observer_(kj::heap<kj::UnixEventPort::FdObserver>(
          io.unixEventPort, arrivals_fd_.get(), kj::UnixEventPort::FdObserver::OBSERVE_READ)) {}

Status RemoteEntrance::start(kj::Timer& timer) {
  // What is wrong with the files is said before there is a thread: that one reads them again.
  if (!options_.tcp.plain)
    if (const auto tls = make_tls(options_.tcp, timer, options_.limit); !tls)
      return tls.error().with_context("tcp");
  thread_ = std::thread([this] { run(); });
  taking_ = take_arrivals_forever().eagerlyEvaluate([](kj::Exception&& e) {
    spdlog::error("taking connections over TCP ended: {}", e.getDescription().cStr());
  });
  return {};
}

RemoteEntrance::~RemoteEntrance() {
  {
    const std::scoped_lock lock(mutex_);
    running_ = false;
  }
  signal_eventfd(control_fd_);
  if (thread_.joinable()) thread_.join();
}

void RemoteEntrance::close() {
  {
    const std::scoped_lock lock(mutex_);
    accepting_ = false;
  }
  signal_eventfd(control_fd_);
}

void RemoteEntrance::read_files_again() {
  {
    const std::scoped_lock lock(mutex_);
    files_changed_ = true;
  }
  signal_eventfd(control_fd_);
}

void RemoteEntrance::run() {
  // Signals are the main thread's.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  try {
    auto io = kj::setupAsyncIo();
    kj::Own<kj::TlsContext> tls;
    if (!options_.tcp.plain) {
      auto made = make_tls(options_.tcp, io.provider->getTimer(), options_.limit);
      if (!made) {
        spdlog::error("TLS: {}", made.error().message());
        return;
      }
      tls = kj::mv(*made);
    }
    Server(*this, io, kj::mv(tls)).run();
  } catch (const kj::Exception& exception) {
    spdlog::error("connections over TCP ended: {}", exception.getDescription().cStr());
  }
}

void RemoteEntrance::post(Arrival arrival) {
  {
    const std::scoped_lock lock(mutex_);
    arrivals_.push_back(std::move(arrival));
  }
  signal_eventfd(arrivals_fd_);
}

kj::Promise<void> RemoteEntrance::take_arrivals_forever() {
  drain_eventfd(arrivals_fd_);
  std::vector<Arrival> arrivals;
  {
    const std::scoped_lock lock(mutex_);
    arrivals.swap(arrivals_);
  }
  for (Arrival& arrival : arrivals) arrived_(std::move(arrival));
  return observer_->whenBecomesReadable().then([this] { return take_arrivals_forever(); });
}

}  // namespace terrace::daemon
