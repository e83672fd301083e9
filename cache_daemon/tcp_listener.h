// A TCP socket that waits for connections.
#pragma once

#include <cstdint>

#include "config/http_address.h"
#include "core/status.h"
#include "core/unique_fd.h"

namespace terrace::daemon {

struct TcpListener {
  UniqueFd fd;             // non-blocking
  std::uint16_t port = 0;  // the one in use, where the address asked for any
};

// `backlog`: connections that may wait to be accepted. The errno's status, without the address:
// callers name what is to listen.
Result<TcpListener> listen_on(const config::HttpAddress& address, int backlog);

}  // namespace terrace::daemon
