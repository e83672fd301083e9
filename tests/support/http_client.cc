#include "tests/support/http_client.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace terrace::test_support {
namespace {

constexpr timeval patience{60, 0};

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

bool read_more(const UniqueFd& fd, std::string& all) {
  char buffer[1 << 14];
  const ssize_t got = ::recv(fd.get(), buffer, sizeof buffer, 0);
  if (got > 0) all.append(buffer, static_cast<std::size_t>(got));
  return got > 0;
}

}  // namespace

UniqueFd connect_to_port(std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fd.reset();
  return fd;
}

bool send_all(const UniqueFd& fd, const std::string& bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t sent = ::send(fd.get(), bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += static_cast<std::size_t>(sent);
  }
  return true;
}

std::string read_to_end(const UniqueFd& fd) {
  std::string all;
  while (read_more(fd, all)) {
  }
  return all;
}

HttpResponse http_request(std::uint16_t port, const std::string& method, const std::string& path,
                          const std::vector<std::string>& headers) {
  std::string request = method + " " + path + " HTTP/1.1\r\n";
  bool has_host = false;
  for (const std::string& header : headers) {
    has_host = has_host || lower(header).starts_with("host:");
    request += header + "\r\n";
  }
  if (!has_host) request += "Host: 127.0.0.1\r\n";
  HttpResponse response;
  const UniqueFd fd = connect_to_port(port);
  if (fd.get() < 0 || !send_all(fd, request + "\r\n")) return response;

  std::string all;
  std::size_t end = std::string::npos;
  while ((end = all.find("\r\n\r\n")) == std::string::npos && read_more(fd, all)) {
  }
  if (end == std::string::npos || !all.starts_with("HTTP/1.1 ")) return response;
  response.status = std::atoi(all.c_str() + 9);
  for (std::size_t at = all.find("\r\n") + 2; at < end;) {
    const std::size_t line_end = all.find("\r\n", at);
    const std::size_t colon = all.find(": ", at);
    if (colon < line_end)
      response.headers[lower(all.substr(at, colon - at))] =
          all.substr(colon + 2, line_end - colon - 2);
    at = line_end + 2;
  }
  // The server may keep the connection.
  const auto length = response.headers.find("content-length");
  const std::size_t body_bytes = method == "HEAD" || length == response.headers.end()
                                     ? 0
                                     : std::strtoul(length->second.c_str(), nullptr, 10);
  while (all.size() < end + 4 + body_bytes && read_more(fd, all)) {
  }
  response.body = all.substr(end + 4);
  return response;
}

std::uint16_t http_port_of_log(const std::string& log) {
  const std::string before = "http: listening on http://127.0.0.1:";
  const std::size_t at = log.find(before);
  if (at == std::string::npos) return 0;
  return static_cast<std::uint16_t>(std::atoi(log.c_str() + at + before.size()));
}

}  // namespace terrace::test_support
