#include "storage/redis/resolver.h"

#include <netdb.h>

#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace terrace::storage::redis {

namespace {

Result<SocketAddress> look_up(const RedisEndpoint& endpoint, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failure =
      ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
  if (failure != 0)
    return error(StatusCode::unavailable,
                 std::string("cannot resolve the name: ") + ::gai_strerror(failure));
  SocketAddress address;
  address.length = found->ai_addrlen;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  return address;
}

}  // namespace

std::optional<SocketAddress> parse_address(const RedisEndpoint& endpoint) {
  const auto address = look_up(endpoint, AI_NUMERICHOST);
  return address ? std::optional(*address) : std::nullopt;
}

void resolve(const RedisEndpoint& endpoint, std::function<void(Result<SocketAddress>)> done) {
  try {
    std::thread([endpoint, done] { done(look_up(endpoint, AI_ADDRCONFIG)); }).detach();
  } catch (const std::system_error& failure) {
    done(error(StatusCode::unavailable, std::string("cannot resolve the name: ") + failure.what()));
  }
}

}  // namespace terrace::storage::redis
