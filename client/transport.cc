#include "client/transport.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "core/default_paths.h"
#include "core/unique_fd.h"
#include "protocol/tls_files.h"

namespace terrace::client {
namespace {

// Of a message from the daemon: an arena and the claim on it.
constexpr unsigned max_fds_per_message = 2;

kj::Own<capnp::TwoPartyClient> make_rpc(kj::AsyncIoStream& stream, bool shares_memory) {
  if (!shares_memory) return kj::heap<capnp::TwoPartyClient>(stream);
  return kj::heap<capnp::TwoPartyClient>(kj::downcast<kj::AsyncCapabilityStream>(stream),
                                         max_fds_per_message);
}

}  // namespace

kj::Exception connection_failure(const std::string& what) {
  return kj::Exception(kj::Exception::Type::DISCONNECTED, __FILE__, __LINE__,
                       kj::heapString(what.c_str()));
}

Result<Address> parse_address(const std::string& text) {
  Address address;
  std::string rest = text.empty() ? default_socket_path() : text;
  const auto take = [&](std::string_view prefix) {
    if (!rest.starts_with(prefix)) return false;
    rest.erase(0, prefix.size());
    return true;
  };
  if (take("tls://")) {
    address.kind = Address::Kind::tls;
  } else if (take("tcp://")) {
    address.kind = Address::Kind::tcp;
  } else {
    take("unix:");
    address.path = rest;
    return address;
  }
  const std::size_t colon = rest.rfind(':');
  const bool has_port = colon != std::string::npos && colon + 1 < rest.size() &&
                        rest.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  if (!has_port || colon == 0)
    return error(StatusCode::invalid_argument,
                 "'" + text + "' is no address: expected such as tls://cache.example:7777");
  address.host = rest.substr(0, colon);
  address.port = rest.substr(colon + 1);
  if (address.host.starts_with('[') && address.host.ends_with(']'))
    address.host = address.host.substr(1, address.host.size() - 2);
  return address;
}

Transport::Transport(kj::Own<kj::AsyncIoStream> stream, bool shares_memory)
    : stream_(kj::mv(stream)),
      shares_memory_(shares_memory),
      rpc_(make_rpc(*stream_, shares_memory)) {}

kj::Promise<kj::Own<Transport>> open_transport(kj::AsyncIoContext& io, const std::string& address,
                                               const Identity& identity) {
  const auto to = parse_address(address);
  if (!to) return connection_failure(to.error().message());
  if (to->kind == Address::Kind::unix_socket) {
    auto stream = connect_to_socket(io, to->path);
    if (!stream) return connection_failure(stream.error().message());
    return kj::heap<Transport>(kj::mv(*stream), true);
  }
  kj::Own<kj::TlsContext> tls;
  if (to->kind == Address::Kind::tls) {
    auto made = protocol::make_tls_client({.ca_file = identity.ca_file,
                                           .certificate_file = identity.certificate_file,
                                           .key_file = identity.key_file});
    if (!made) return connection_failure(made.error().message());
    tls = kj::mv(*made);
  }
  const bool v6 = to->host.find(':') != std::string::npos;
  const std::string where = (v6 ? "[" + to->host + "]" : to->host) + ":" + to->port;
  const std::string name = identity.server_name.empty() ? to->host : identity.server_name;
  return io.provider->getNetwork()
      .parseAddress(where.c_str())
      .then([](kj::Own<kj::NetworkAddress>&& found) {
        auto connecting = found->connect();
        return connecting.attach(kj::mv(found));
      })
      .then(
          [](kj::Own<kj::AsyncIoStream>&& stream) {
            const int on = 1;
            stream->setsockopt(IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            return kj::mv(stream);
          },
          [where](kj::Exception&& e) -> kj::Own<kj::AsyncIoStream> {
            kj::throwFatalException(connection_failure("could not connect to terraced at " + where +
                                                       ": " + e.getDescription().cStr()));
          })
      .then([tls = kj::mv(tls), name, where](
                kj::Own<kj::AsyncIoStream>&& stream) mutable -> kj::Promise<kj::Own<Transport>> {
        if (!tls) return kj::heap<Transport>(kj::mv(stream), false);
        auto secure = tls->wrapClient(kj::mv(stream), name.c_str());
        return secure.attach(kj::mv(tls))
            .then(
                [](kj::Own<kj::AsyncIoStream>&& encrypted) {
                  return kj::heap<Transport>(kj::mv(encrypted), false);
                },
                [where](kj::Exception&& e) -> kj::Own<Transport> {
                  kj::throwFatalException(connection_failure(
                      "TLS with terraced at " + where + " failed: " + e.getDescription().cStr()));
                });
      });
}

Result<kj::Own<kj::AsyncCapabilityStream>> connect_to_socket(kj::AsyncIoContext& io,
                                                             const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return error(StatusCode::unavailable, "the socket's path '" + path + "' is too long");
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd)
    return error(StatusCode::unavailable,
                 errno_status(errno, "could not create a socket").message());
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return error(StatusCode::unavailable,
                 errno_status(errno, "could not connect to terraced at " + path).message());
  using Provider = kj::LowLevelAsyncIoProvider;
  return io.lowLevelProvider->wrapUnixSocketFd(fd.release(), Provider::TAKE_OWNERSHIP |
                                                                 Provider::ALREADY_CLOEXEC |
                                                                 Provider::ALREADY_NONBLOCK);
}

}  // namespace terrace::client
