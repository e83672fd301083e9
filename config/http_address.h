// Where a server listens for TCP connections.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace terrace::config {

struct HttpAddress {
  std::string host;  // an IPv4 or IPv6 address in digits
  std::uint16_t port = 0;
  bool loopback = false;  // only processes of this machine reach it
};

// Of "127.0.0.1:9470", "[::1]:9470" or "localhost:9470" (the IPv4 one); port 0: any free one.
// Nothing for what is no such text: names are not looked up.
std::optional<HttpAddress> parse_http_address(std::string_view text);

// "http://127.0.0.1:9470/": the address with the port that was really taken.
std::string http_url(const HttpAddress& address, std::uint16_t port);

}  // namespace terrace::config
