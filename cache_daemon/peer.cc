#include "cache_daemon/peer.h"

#include <kj/debug.h>
#include <sys/socket.h>

#include <array>

#include "cache_daemon/limit_errors.h"
#include "cache_daemon/operator_answers.h"

namespace terrace::daemon {
namespace {

// Groups of one process that rules are held against; a user has some dozens at most.
constexpr std::size_t max_peer_groups = 1024;

}  // namespace

std::string Peer::name() const {
  std::string name =
      credentials.local() ? "pid " + std::to_string(process->pid()) : credentials.address;
  return client_name.empty() ? name : client_name + " (" + name + ")";
}

void require_shared_memory(const Peer& peer) {
  if (peer.credentials.local()) return;
  kj::throwFatalException(KJ_EXCEPTION(
      FAILED, "memory is shared with clients on a Unix socket only; others send and fetch blocks"));
}

storage::SpaceId open_space_for(storage::TieredCache& cache, const SpaceDescriptor& descriptor,
                                const std::optional<std::string>& tenant,
                                const config::DaemonLimits& limits) {
  if (tenant && !cache.find_space(descriptor.digest()))
    require_within("limits.max_spaces_per_tenant", limits.max_spaces_per_tenant,
                   cache.spaces_of(descriptor.tenant) + 1, "spaces");
  const auto space = cache.open_space(descriptor);
  if (!space) kj::throwFatalException(refusal(space.error()));
  return *space;
}

capnp::Capability::Server::DispatchCallResult counted(
    const std::shared_ptr<Peer>& peer, const config::DaemonLimits& limits,
    kj::FunctionParam<capnp::Capability::Server::DispatchCallResult()> dispatch) {
  require_within("limits.max_requests_per_connection", limits.max_requests_per_connection,
                 peer->open_requests + 1, "requests without an answer");
  ++peer->open_requests;
  auto done = kj::defer([peer] { --peer->open_requests; });
  auto result = dispatch();
  result.promise = result.promise.attach(kj::mv(done));
  return result;
}

Credentials local_credentials(int fd, std::string socket) {
  Credentials credentials;
  credentials.socket = std::move(socket);
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return credentials;
  credentials.pid = peer.pid;
  credentials.uid = peer.uid;
  credentials.gids.push_back(peer.gid);
  std::array<gid_t, max_peer_groups> more{};
  size = sizeof more;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, more.data(), &size) == 0)
    credentials.gids.insert(credentials.gids.end(), more.begin(),
                            more.begin() + size / sizeof(gid_t));
  return credentials;
}

}  // namespace terrace::daemon
