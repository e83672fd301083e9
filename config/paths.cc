#include "config/paths.h"

#include <sys/un.h>

namespace terrace::config {

void read_socket_path(OptionReader& options, std::string_view key, std::string& socket_path) {
  constexpr std::size_t max_path_bytes = sizeof(sockaddr_un::sun_path) - 1;
  options.text(key, socket_path);
  if (socket_path.empty())
    options.problem(key, "found no text, expected the path of a socket");
  else if (socket_path.size() > max_path_bytes)
    options.problem(key, "found a path of " + std::to_string(socket_path.size()) +
                             " bytes, expected at most " + std::to_string(max_path_bytes) +
                             ", which is what a socket address holds");
}

}  // namespace terrace::config
