#include "cache_daemon/tcp_listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

namespace terrace::daemon {

Result<TcpListener> listen_on(const config::HttpAddress& address, int backlog) {
  sockaddr_storage storage{};
  socklen_t size = 0;
  if (address.host.find(':') != std::string::npos) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(address.port);
    ::inet_pton(AF_INET6, address.host.c_str(), &v6.sin6_addr);
    size = sizeof v6;
  } else {
    auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    ::inet_pton(AF_INET, address.host.c_str(), &v4.sin_addr);
    size = sizeof v4;
  }
  auto* const generic = reinterpret_cast<sockaddr*>(&storage);
  TcpListener listener{
      UniqueFd(::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0))};
  const int yes = 1;
  if (!listener.fd ||
      ::setsockopt(listener.fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
      ::bind(listener.fd.get(), generic, size) != 0 || ::listen(listener.fd.get(), backlog) != 0)
    return error(errno_status(errno, "could not listen"));
  size = sizeof storage;
  if (::getsockname(listener.fd.get(), generic, &size) != 0)
    return error(errno_status(errno, "getsockname"));
  listener.port =
      ntohs(storage.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(storage).sin6_port
                                          : reinterpret_cast<sockaddr_in&>(storage).sin_port);
  return listener;
}

}  // namespace terrace::daemon
