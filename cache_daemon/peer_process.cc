#include "cache_daemon/peer_process.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace terrace::daemon {

PeerProcess::PeerProcess(kj::UnixEventPort& port, pid_t pid) : pid_(pid) {
  if (pid_ <= 0) return;
  pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (pidfd_) {
    observer_ = kj::heap<kj::UnixEventPort::FdObserver>(
        port, pidfd_.get(), kj::UnixEventPort::FdObserver::OBSERVE_READ);
  } else {
    gone_ = errno == ESRCH;
  }
}

bool PeerProcess::alive() const {
  if (gone_) return false;
  if (!pidfd_) return true;
  pollfd readable{pidfd_.get(), POLLIN, 0};
  return ::poll(&readable, 1, 0) != 1;
}

kj::Promise<void> PeerProcess::when_ended() {
  if (!alive()) return kj::READY_NOW;
  KJ_IF_MAYBE (observer, observer_) {
    return (*observer)->whenBecomesReadable();
  }
  return kj::NEVER_DONE;
}

}  // namespace terrace::daemon
