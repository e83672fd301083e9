#include "cache_daemon/peer.h"

#include <sys/socket.h>

#include <array>

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

Credentials local_credentials(int fd, std::string socket) {
  Credentials credentials;
  credentials.socket = std::move(socket);
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return credentials;
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
