// Names of hosts to addresses. A name may take the system long to look up, so that is done on a
// thread that nobody waits for.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "storage/redis/connection.h"

namespace terrace::storage::redis {

// An endpoint whose host is an address already.
std::optional<SocketAddress> parse_address(const RedisEndpoint& endpoint);

// All addresses of a name, the best first: at least one.
using Addresses = std::vector<SocketAddress>;

// Looks a name up and calls `done` with its addresses or an unavailable, on a thread of its own
// that may outlive everything but the process: `done` must not hold on to what may be gone by then.
void resolve(const RedisEndpoint& endpoint, std::function<void(Result<Addresses>)> done);

}  // namespace terrace::storage::redis
