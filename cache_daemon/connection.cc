#include "cache_daemon/connection.h"

#include <capnp/serialize-async.h>
#include <kj/debug.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "cache_daemon/limits.h"
#include "cache_daemon/operator_server.h"
#include "cache_daemon/session_server.h"

namespace terrace::daemon {
namespace {

// With 0 here descriptors would not go out either.
constexpr unsigned max_fds_per_message = 2;

capnp::ReaderOptions reader_options(const config::DaemonLimits& limits) {
  capnp::ReaderOptions options;
  options.traversalLimitInWords = limits.max_message_bytes / sizeof(capnp::word);
  return options;
}

pid_t peer_pid(kj::PeerIdentity& identity) {
  const auto* local = dynamic_cast<kj::LocalPeerIdentity*>(&identity);
  if (local == nullptr) return 0;
  const auto credentials = const_cast<kj::LocalPeerIdentity*>(local)->getCredentials();
  return credentials.pid.orDefault(0);
}

// What a client calls itself, fit for a log line.
std::string printable_name(capnp::Text::Reader name) {
  std::string result(name.begin(), std::min<std::size_t>(name.size(), max_client_name_bytes));
  for (char& c : result)
    if (!std::isprint(static_cast<unsigned char>(c))) c = '?';
  return result.empty() ? "a client" : result;
}

}  // namespace

void write_info(const Context& context, protocol::DaemonInfo::Builder info) {
  info.setBootId(context.boot_id);
  info.setVersion(version);
  info.setProtocolVersion(protocol::PROTOCOL_VERSION);
  info.setPid(static_cast<std::uint32_t>(::getpid()));
  info.setRequestBudgetMs(static_cast<std::uint32_t>(context.config.request_budget.count()));
}

struct Connection::Peer {
  std::shared_ptr<PeerProcess> process;
  std::shared_ptr<Session> session;  // once opened
  kj::PromiseFulfillerPair<void> cut = kj::newPromiseAndFulfiller<void>();
};

// Reads no further message of a client that lets its answers pile up: a client that sends and does
// not read would fill the daemon's memory.
class Connection::Messages final : public capnp::MessageStream {
 public:
  Messages(kj::AsyncCapabilityStream& stream, std::shared_ptr<Peer> peer,
           std::size_t max_queued_bytes)
      : stream_(stream), peer_(std::move(peer)), max_queued_bytes_(max_queued_bytes) {}

  void watch(capnp::TwoPartyVatNetwork& network) { network_ = &network; }

  kj::Promise<kj::Maybe<capnp::MessageReaderAndFds>> tryReadMessage(
      kj::ArrayPtr<kj::AutoCloseFd> fds, capnp::ReaderOptions options,
      kj::ArrayPtr<capnp::word> scratch) override {
    if (network_ != nullptr && network_->getCurrentQueueSize() > max_queued_bytes_) {
      spdlog::warn("cutting the connection of pid {}: it has not read {} bytes of answers",
                   peer_->process->pid(), network_->getCurrentQueueSize());
      peer_->cut.fulfiller->fulfill();
      return kj::NEVER_DONE;
    }
    return stream_.tryReadMessage(fds, options, scratch)
        .catch_([peer = peer_](kj::Exception&& exception)
                    -> kj::Promise<kj::Maybe<capnp::MessageReaderAndFds>> {
          // Left to itself, the RPC system would wait for its answers to be read first.
          spdlog::info("cutting the connection of pid {}: {}", peer->process->pid(),
                       exception.getDescription().cStr());
          peer->cut.fulfiller->fulfill();
          return kj::NEVER_DONE;
        });
  }
  kj::Promise<void> writeMessage(
      kj::ArrayPtr<const int> fds,
      kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>> segments) override {
    return stream_.writeMessage(fds, segments);
  }
  kj::Promise<void> writeMessages(
      kj::ArrayPtr<kj::ArrayPtr<const kj::ArrayPtr<const capnp::word>>> messages) override {
    return stream_.writeMessages(messages);
  }
  kj::Maybe<int> getSendBufferSize() override { return stream_.getSendBufferSize(); }
  kj::Promise<void> end() override { return stream_.end(); }

 private:
  capnp::AsyncCapabilityMessageStream stream_;
  std::shared_ptr<Peer> peer_;
  std::size_t max_queued_bytes_;
  capnp::TwoPartyVatNetwork* network_ = nullptr;
};

// The bootstrap capability of one connection.
class Connection::DaemonServer final : public protocol::Daemon::Server {
 public:
  DaemonServer(Context& context, std::shared_ptr<Peer> peer)
      : context_(context), peer_(std::move(peer)) {}

  kj::Promise<void> ping(PingContext call) override {
    const auto given = call.getParams().getData();
    const auto data = given.slice(0, kj::min(given.size(), call.getParams().getReplyBytes()));
    constexpr std::size_t words_around_data = 8;
    call.getResults(capnp::MessageSize{data.size() / 8 + words_around_data, 0}).setData(data);
    return kj::READY_NOW;
  }

  kj::Promise<void> info(InfoContext call) override {
    write_info(context_, call.getResults().initInfo());
    return kj::READY_NOW;
  }

  kj::Promise<void> openSession(OpenSessionContext call) override {
    KJ_REQUIRE(!peer_->session, "this connection has a session already");
    if (!context_.device.ready())
      kj::throwFatalException(KJ_EXCEPTION(OVERLOADED, "terraced has no device tier yet",
                                           context_.device.reason().c_str()));
    auto session =
        context_.sessions.open(peer_->process, printable_name(call.getParams().getClientName()),
                               [weak = std::weak_ptr(peer_)] {
                                 if (const auto peer = weak.lock()) peer->cut.fulfiller->fulfill();
                               });
    if (!session)
      kj::throwFatalException(KJ_EXCEPTION(OVERLOADED, session.error().message().c_str()));
    peer_->session = *session;
    auto results = call.getResults();
    results.setSession(kj::heap<SessionServer>(context_, peer_->process, *session));
    results.setSessionId((*session)->id());
    write_info(context_, results.initInfo());
    return kj::READY_NOW;
  }

  kj::Promise<void> openOperator(OpenOperatorContext call) override {
    call.getResults().setOperator(kj::heap<OperatorServer>(context_));
    return kj::READY_NOW;
  }

 private:
  Context& context_;
  std::shared_ptr<Peer> peer_;
};

Connection::Connection(Context& context, kj::AuthenticatedStream stream)
    : context_(context),
      peer_(std::make_shared<Peer>()),
      stream_(kj::mv(stream.stream)),
      messages_(kj::heap<Messages>(kj::downcast<kj::AsyncCapabilityStream>(*stream_), peer_,
                                   context.config.limits.max_queued_bytes)),
      network_(*messages_, max_fds_per_message, capnp::rpc::twoparty::Side::SERVER,
               reader_options(context.config.limits)),
      rpc_(capnp::makeRpcServer(network_, kj::heap<DaemonServer>(context, peer_))) {
  peer_->process =
      std::make_shared<PeerProcess>(context.event_port, peer_pid(*stream.peerIdentity));
  messages_->watch(network_);
  ++context_.connections;
}

Connection::~Connection() {
  --context_.connections;
  if (peer_->session) context_.sessions.connection_lost(peer_->session->id());
}

kj::Promise<void> Connection::when_over() {
  return network_.onDisconnect().exclusiveJoin(kj::mv(peer_->cut.promise));
}

}  // namespace terrace::daemon
