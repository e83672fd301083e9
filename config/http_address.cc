#include "config/http_address.h"

#include <arpa/inet.h>

#include <charconv>

namespace terrace::config {

std::optional<HttpAddress> parse_http_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  HttpAddress address;
  const std::string_view port = text.substr(colon + 1);
  const auto [end, failure] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (failure != std::errc() || end != port.data() + port.size()) return std::nullopt;

  std::string_view host = text.substr(0, colon);
  if (host == "localhost") host = "127.0.0.1";
  const bool in_brackets = host.starts_with('[') && host.ends_with(']');
  if (in_brackets) host = host.substr(1, host.size() - 2);
  address.host = host;
  if (in_brackets) {
    in6_addr bytes{};
    if (::inet_pton(AF_INET6, address.host.c_str(), &bytes) != 1) return std::nullopt;
    address.loopback = IN6_IS_ADDR_LOOPBACK(&bytes);
  } else {
    in_addr bytes{};
    if (::inet_pton(AF_INET, address.host.c_str(), &bytes) != 1) return std::nullopt;
    address.loopback = ntohl(bytes.s_addr) >> 24 == 127;
  }
  return address;
}

std::string http_url(const HttpAddress& address, std::uint16_t port) {
  const bool v6 = address.host.find(':') != std::string::npos;
  return "http://" + (v6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(port) +
         "/";
}

}  // namespace terrace::config
