#include "cache_daemon/connection.h"

#include <capnp/serialize-async.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "cache_daemon/limits.h"
#include "cache_daemon/login_server.h"

namespace terrace::daemon {
namespace {

// With 0 here descriptors would not go out either.
constexpr unsigned max_fds_per_message = 2;

capnp::ReaderOptions reader_options(const config::DaemonLimits& limits) {
  capnp::ReaderOptions options;
  options.traversalLimitInWords = limits.max_message_bytes / sizeof(capnp::word);
  return options;
}

}  // namespace

// Reads no further message of a client that lets its answers pile up: a client that sends and does
// not read would fill the daemon's memory.
class Connection::Messages final : public capnp::MessageStream {
 public:
  Messages(kj::AsyncCapabilityStream& stream, std::shared_ptr<Peer> peer, kj::Timer& timer,
           std::size_t max_queued_bytes)
      : stream_(stream),
        peer_(std::move(peer)),
        timer_(timer),
        max_queued_bytes_(max_queued_bytes) {}

  void watch(capnp::TwoPartyVatNetwork& network) { network_ = &network; }

  using Message = kj::Promise<kj::Maybe<capnp::MessageReaderAndFds>>;

  kj::Promise<kj::Maybe<capnp::MessageReaderAndFds>> tryReadMessage(
      kj::ArrayPtr<kj::AutoCloseFd> fds, capnp::ReaderOptions options,
      kj::ArrayPtr<capnp::word> scratch) override {
    if (peer_->grant) return read(fds, options, scratch, max_queued_bytes_);
    // After all that came before has been done: the login may be among it.
    return timer_.afterDelay(0 * kj::SECONDS)
        .then([this, fds, options, scratch]() mutable -> Message {
          if (peer_->grant) return read(fds, options, scratch, max_queued_bytes_);
          // What comes behind a login that waits for its refusal would pile up until then.
          if (peer_->logging_in)
            return timer_.afterDelay(failed_login_pause.count() * kj::MILLISECONDS)
                .then([this, fds, options, scratch] {
                  return tryReadMessage(fds, options, scratch);
                });
          options.traversalLimitInWords = std::min(
              options.traversalLimitInWords, max_message_bytes_before_login / sizeof(capnp::word));
          return read(fds, options, scratch,
                      std::min(max_queued_bytes_, max_queued_bytes_before_login));
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
  kj::Promise<kj::Maybe<capnp::MessageReaderAndFds>> read(kj::ArrayPtr<kj::AutoCloseFd> fds,
                                                          capnp::ReaderOptions options,
                                                          kj::ArrayPtr<capnp::word> scratch,
                                                          std::size_t most) {
    if (network_ != nullptr && network_->getCurrentQueueSize() > most) {
      spdlog::warn(
          "cutting the connection of {}: it has not read {} bytes of answers "
          "(limits.max_queued_bytes)",
          peer_->name(), network_->getCurrentQueueSize());
      peer_->cut.fulfiller->fulfill();
      return kj::NEVER_DONE;
    }
    return stream_.tryReadMessage(fds, options, scratch)
        .catch_([peer = peer_](kj::Exception&& exception)
                    -> kj::Promise<kj::Maybe<capnp::MessageReaderAndFds>> {
          // Left to itself, the RPC system would wait for its answers to be read first.
          spdlog::info("cutting the connection of {}: {}", peer->name(),
                       exception.getDescription().cStr());
          peer->cut.fulfiller->fulfill();
          return kj::NEVER_DONE;
        });
  }

  capnp::AsyncCapabilityMessageStream stream_;
  std::shared_ptr<Peer> peer_;
  kj::Timer& timer_;
  std::size_t max_queued_bytes_;
  capnp::TwoPartyVatNetwork* network_ = nullptr;
};

Connection::Connection(Context& context, kj::Own<kj::AsyncIoStream> stream, Credentials credentials)
    : context_(context),
      peer_(std::make_shared<Peer>()),
      stream_(kj::mv(stream)),
      messages_(kj::heap<Messages>(kj::downcast<kj::AsyncCapabilityStream>(*stream_), peer_,
                                   context.event_port.getTimer(),
                                   context.config.limits.max_queued_bytes)),
      network_(*messages_, credentials.local() ? max_fds_per_message : 0,
               capnp::rpc::twoparty::Side::SERVER, reader_options(context.config.limits)),
      rpc_(capnp::makeRpcServer(network_, kj::heap<LoginServer>(context, peer_))) {
  peer_->credentials = std::move(credentials);
  peer_->process = peer_->credentials.local()
                       ? std::make_shared<PeerProcess>(context.event_port, peer_->credentials.pid)
                       : std::make_shared<PeerProcess>();
  messages_->watch(network_);
  ++context_.connections;
  context_.peers.insert(peer_.get());
  if (!peer_->credentials.local()) ++context_.strangers;
}

Connection::~Connection() {
  --context_.connections;
  context_.peers.erase(peer_.get());
  if (!peer_->credentials.local() && !peer_->grant) --context_.strangers;
  if (peer_->session) context_.sessions.connection_lost(peer_->session->id());
}

kj::Promise<void> Connection::when_over() {
  auto no_login = context_.event_port.getTimer()
                      .afterDelay(context_.config.limits.login_deadline.count() * kj::MILLISECONDS)
                      .then([peer = peer_]() -> kj::Promise<void> {
                        if (peer->grant) return kj::NEVER_DONE;
                        spdlog::info(
                            "cutting the connection of {}: no login within "
                            "limits.login_deadline_ms",
                            peer->name());
                        return kj::READY_NOW;
                      });
  return network_.onDisconnect()
      .exclusiveJoin(kj::mv(peer_->cut.promise))
      .exclusiveJoin(kj::mv(no_login));
}

}  // namespace terrace::daemon
