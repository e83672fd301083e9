// The Unix socket that the daemon listens on.
#pragma once

#include <sys/types.h>

#include <string>

#include "config/access_options.h"
#include "core/status.h"
#include "core/unique_fd.h"

namespace terrace::daemon {

// Owns the listening descriptor and the file of the socket.
class ListeningSocket {
 public:
  // Binds and listens at `path` and creates the folders above it. The file belongs to whom
  // `permissions` says before anybody can connect; what the daemon may not do of that is an error.
  // A socket file that nobody listens on any more is replaced; already_exists if somebody does, or
  // if `path` is something else than a socket. Of several daemons that start at once for one path,
  // one wins.
  static Result<ListeningSocket> open(const std::string& path,
                                      const config::SocketPermissions& permissions);

  ListeningSocket() = default;
  ~ListeningSocket() { close(); }
  ListeningSocket(ListeningSocket&&) noexcept = default;
  ListeningSocket& operator=(ListeningSocket&&) = delete;

  int fd() const { return fd_.get(); }
  const std::string& path() const { return path_; }

  // Stops listening and removes the file, unless another daemon's has taken its place.
  void close();

 private:
  UniqueFd fd_;
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace terrace::daemon
