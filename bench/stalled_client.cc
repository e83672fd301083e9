#include "bench/stalled_client.h"

#include <capnp/message.h>
#include <capnp/rpc.capnp.h>
#include <capnp/serialize.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include "core/unique_fd.h"
#include "protocol/terrace.capnp.h"

namespace terrace::bench {

namespace {

constexpr unsigned answer_bytes = 64 << 10;
constexpr std::chrono::milliseconds stop_poll_interval{50};
constexpr std::chrono::milliseconds pause_after_cut{500};

// What asks for the daemon's bootstrap capability as answer 0.
kj::Array<capnp::word> bootstrap_message() {
  capnp::MallocMessageBuilder message;
  message.initRoot<capnp::rpc::Message>().initBootstrap().setQuestionId(0);
  return capnp::messageToFlatArray(message);
}

// A call of that capability, written by hand: a client of the library would read.
capnp::rpc::Call::Builder make_call(capnp::MessageBuilder& message, std::uint32_t question,
                                    std::uint16_t method) {
  auto call = message.initRoot<capnp::rpc::Message>().initCall();
  call.setQuestionId(question);
  call.initTarget().initPromisedAnswer().setQuestionId(0);
  call.setInterfaceId(capnp::typeId<protocol::Daemon>());
  call.setMethodId(method);
  return call;
}

kj::Array<capnp::word> login_message(std::uint32_t question) {
  capnp::MallocMessageBuilder message;
  make_call(message, question, 4)
      .initParams()
      .getContent()
      .initAs<protocol::Daemon::LoginParams>()
      .setProtocolVersion(protocol::PROTOCOL_VERSION);
  return capnp::messageToFlatArray(message);
}

// With a large answer.
kj::Array<capnp::word> ping_message(std::uint32_t question) {
  capnp::MallocMessageBuilder message;
  auto params = make_call(message, question, 0)
                    .initParams()
                    .getContent()
                    .initAs<protocol::Daemon::PingParams>();
  params.initData(answer_bytes);
  params.setReplyBytes(answer_bytes);
  return capnp::messageToFlatArray(message);
}

UniqueFd connect_bare(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return {};
  std::memcpy(address.sun_path, path.c_str(), path.size());
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return {};
  return fd;
}

}  // namespace

StalledClient::StalledClient(const std::string& socket_path)
    : thread_([this, socket_path](std::stop_token stop) { run(stop, socket_path); }) {}

StalledClient::~StalledClient() = default;

bool StalledClient::send(std::stop_token stop, int fd, kj::ArrayPtr<const kj::byte> bytes) {
  while (bytes.size() > 0) {
    if (stop.stop_requested()) return false;
    pollfd writable{fd, POLLOUT, 0};
    if (::poll(&writable, 1, static_cast<int>(stop_poll_interval.count())) <= 0) continue;
    const ssize_t sent = ::send(fd, bytes.begin(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (sent < 0) {
      ++cuts_;
      return false;
    }
    sent_bytes_ += static_cast<std::uint64_t>(sent);
    bytes = bytes.slice(static_cast<std::size_t>(sent), bytes.size());
  }
  return true;
}

void StalledClient::run(std::stop_token stop, const std::string& socket_path) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  while (!stop.stop_requested()) {
    const UniqueFd fd = connect_bare(socket_path);
    std::uint32_t question = 1;
    bool open = fd && send(stop, fd.get(), bootstrap_message().asBytes()) &&
                send(stop, fd.get(), login_message(question++).asBytes());
    while (open) open = send(stop, fd.get(), ping_message(question++).asBytes());
    std::unique_lock lock(mutex);
    stopped.wait_for(lock, stop, pause_after_cut, [] { return false; });
  }
}

}  // namespace terrace::bench
