// Where the daemon's HTTP listens.
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

}  // namespace terrace::config
