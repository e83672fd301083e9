#include "cache_daemon/listening_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "cache_daemon/access_policy.h"

namespace terrace::daemon {
namespace {

// Before it has its owner, only the daemon's user.
constexpr mode_t closed_mode = 0600;
constexpr int listen_backlog = 128;
// Another daemon holds the folder's lock only while it binds.
constexpr int max_lock_attempts = 200;
constexpr std::chrono::milliseconds lock_retry_interval{10};

Result<sockaddr_un> socket_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return error(StatusCode::invalid_argument,
                 "the socket's path '" + path + "' has " + std::to_string(path.size()) +
                     " bytes; expected 1 to " + std::to_string(sizeof address.sun_path - 1));
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

// Between looking at a stale socket and replacing it, nobody else may do the same: whoever binds
// holds a lock on the folder.
Result<UniqueFd> lock_folder(const std::filesystem::path& folder) {
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return error(errno_status(errno, "could not open the folder " + folder.string()));
  for (int attempt = 0; ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0; ++attempt) {
    if (errno != EWOULDBLOCK || attempt == max_lock_attempts)
      return error(errno_status(errno, "could not lock the folder " + folder.string()));
    std::this_thread::sleep_for(lock_retry_interval);
  }
  return fd;
}

// ok if nothing is at `path` any more.
Status remove_stale_socket(const std::string& path, const sockaddr_un& address) {
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0)
    return errno == ENOENT ? Status() : errno_status(errno, "could not look at " + path);
  if (!S_ISSOCK(info.st_mode))
    return {StatusCode::already_exists, path + " is there and is not a socket"};

  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!probe) return errno_status(errno, "could not create a socket");
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ||
      errno == EAGAIN)
    return {StatusCode::already_exists,
            "the socket " + path + " is in use: another daemon listens on it"};
  if (errno != ECONNREFUSED) return errno_status(errno, "could not probe the socket " + path);
  if (::unlink(path.c_str()) != 0)
    return errno_status(errno, "could not remove the stale socket " + path);
  return {};
}

Status give_to_owner(const std::string& path, const config::SocketPermissions& permissions) {
  constexpr auto unchanged = static_cast<uid_t>(-1);
  uid_t uid = unchanged;
  gid_t gid = unchanged;
  if (!permissions.owner.empty()) {
    const auto found = find_user(permissions.owner);
    if (!found) return found.error().with_context("the socket's owner");
    uid = *found;
  }
  if (!permissions.group.empty()) {
    const auto found = find_group(permissions.group);
    if (!found) return found.error().with_context("the socket's group");
    gid = *found;
  }
  if (uid == unchanged && gid == unchanged) return {};
  if (::lchown(path.c_str(), uid, gid) != 0)
    return errno_status(errno, "could not give the socket " + path + " to its owner and group");
  return {};
}

}  // namespace

Result<ListeningSocket> ListeningSocket::open(const std::string& path,
                                              const config::SocketPermissions& permissions) {
  const auto address = socket_address(path);
  if (!address) return error(address.error());

  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure)
    return error(errno_status(failure.value(), "could not create the folder " + folder.string()));
  const auto lock = lock_folder(folder);
  if (!lock) return error(lock.error());
  if (const Status status = remove_stale_socket(path, *address); !status.ok()) return error(status);

  ListeningSocket socket;
  socket.fd_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.fd_) return error(errno_status(errno, "could not create a socket"));
  // Before bind: the file must never be open to others, not even for a moment.
  ::fchmod(socket.fd_.get(), permissions.mode & closed_mode);
  if (::bind(socket.fd_.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0)
    return error(errno_status(errno, "could not bind the socket " + path));
  socket.path_ = path;
  struct stat info;
  if (::lstat(path.c_str(), &info) != 0)
    return error(errno_status(errno, "could not look at the socket " + path));
  socket.device_ = info.st_dev;
  socket.inode_ = info.st_ino;
  if (const Status status = give_to_owner(path, permissions); !status.ok()) return error(status);
  // The umask may have taken the group's rights away.
  if (::chmod(path.c_str(), permissions.mode) != 0)
    return error(errno_status(errno, "could not set the mode of the socket " + path));
  if (::listen(socket.fd_.get(), listen_backlog) != 0)
    return error(errno_status(errno, "could not listen on the socket " + path));
  return socket;
}

void ListeningSocket::close() {
  if (!fd_) return;
  fd_.reset();
  struct stat info;
  if (::lstat(path_.c_str(), &info) == 0 && info.st_dev == device_ && info.st_ino == inode_)
    ::unlink(path_.c_str());
}

}  // namespace terrace::daemon
