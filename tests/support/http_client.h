// A blocking HTTP client for tests: one connection a request, nothing clever.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/unique_fd.h"

namespace terrace::test_support {

struct HttpResponse {
  int status = 0;                              // 0: no answer
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

// Connected to 127.0.0.1; reading and writing give up after a minute. Without a descriptor if
// nobody listens.
UniqueFd connect_to_port(std::uint16_t port);

// Sends bytes as they are; false if the other side has closed.
bool send_all(const UniqueFd& fd, const std::string& bytes);
// What comes until the other side closes.
std::string read_to_end(const UniqueFd& fd);

// With a Host unless `headers` (such as "Host: example") has one.
HttpResponse http_request(std::uint16_t port, const std::string& method, const std::string& path,
                          const std::vector<std::string>& headers = {});
inline HttpResponse http_get(std::uint16_t port, const std::string& path) {
  return http_request(port, "GET", path);
}

// The port in "http: listening on http://127.0.0.1:PORT/" of a daemon's log; 0 if there is none.
std::uint16_t http_port_of_log(const std::string& log);

}  // namespace terrace::test_support
