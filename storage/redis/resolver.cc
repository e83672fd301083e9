#include "storage/redis/resolver.h"

#include <netdb.h>

#include <cstring>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace terrace::storage::redis {

namespace {

Result<Addresses> look_up(const RedisEndpoint& endpoint, int flags) {
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
  Addresses addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    address.length = one->ai_addrlen;
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
  }
  ::freeaddrinfo(found);
  return addresses;
}

}  // namespace

std::optional<SocketAddress> parse_address(const RedisEndpoint& endpoint) {
  const auto addresses = look_up(endpoint, AI_NUMERICHOST);
  return addresses ? std::optional(addresses->front()) : std::nullopt;
}

void resolve(const RedisEndpoint& endpoint, std::function<void(Result<Addresses>)> done) {
  try {
    std::thread([endpoint, done] { done(look_up(endpoint, AI_ADDRCONFIG)); }).detach();
  } catch (const std::system_error& failure) {
    done(error(StatusCode::unavailable, std::string("cannot resolve the name: ") + failure.what()));
  }
}

}  // namespace terrace::storage::redis
