// What is known of the client at the other end of a connection, for all that is served to it.
#pragma once

#include <capnp/capability.h>
#include <kj/async.h>
#include <kj/function.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "cache_daemon/access_policy.h"
#include "cache_daemon/peer_process.h"
#include "cache_daemon/session.h"

namespace terrace::daemon {

// Shared by the connection and its capabilities, which may outlive it for a moment.
struct Peer {
  Credentials credentials;
  std::shared_ptr<PeerProcess> process;
  std::optional<Grant> grant;   // once logged in
  std::optional<Digest> token;  // that it was given for
  std::string client_name;      // likewise; fit for a log line
  std::size_t failed_logins = 0;
  bool logging_in = false;           // a login waits for its answer
  std::shared_ptr<Session> session;  // once opened
  std::size_t open_requests = 0;     // calls without an answer yet
  // Ends the connection.
  kj::PromiseFulfillerPair<void> cut = kj::newPromiseAndFulfiller<void>();

  // For log lines.
  std::string name() const;
};

// Throws for a client on another host: it has no memory in common with the daemon.
void require_shared_memory(const Peer& peer);

// Opens the space in the cache. Throws for what the cache refuses and, where the login has a
// tenant, past limits.max_spaces_per_tenant: he must not use up what is there for all.
storage::SpaceId open_space_for(storage::TieredCache& cache, const SpaceDescriptor& descriptor,
                                const std::optional<std::string>& tenant,
                                const config::DaemonLimits& limits);

// Calls `dispatch` as one of the requests that a connection may have open.
capnp::Capability::Server::DispatchCallResult counted(
    const std::shared_ptr<Peer>& peer, const config::DaemonLimits& limits,
    kj::FunctionParam<capnp::Capability::Server::DispatchCallResult()> dispatch);

// Who connected to the Unix socket called `socket`, as the kernel says.
Credentials local_credentials(int fd, std::string socket);

}  // namespace terrace::daemon
