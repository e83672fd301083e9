#include "inference/server/hang_up.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <sys/socket.h>

#include <cerrno>

#include "core/unique_fd.h"

namespace terrace::inference {

namespace {

class HangUpWatch {
 public:
  HangUpWatch(kj::UnixEventPort& port, int socket_fd)
      : fd_(::fcntl(socket_fd, F_DUPFD_CLOEXEC, 0)),
        observer_(port, fd_.get(), kj::UnixEventPort::FdObserver::OBSERVE_READ) {}

  kj::Promise<void> watch() {
    return observer_.whenBecomesReadable().then([this]() -> kj::Promise<void> {
      if (closed()) return KJ_EXCEPTION(DISCONNECTED, "the client hung up");
      return watch();
    });
  }

 private:
  bool closed() {
    char byte;
    const ssize_t got = ::recv(fd_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0) return errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
    // Another request may wait there, ahead of the end.
    return got == 0 || observer_.atEndHint().orDefault(false);
  }

  UniqueFd fd_;
  kj::UnixEventPort::FdObserver observer_;
};

}  // namespace

kj::Promise<void> when_hung_up(kj::UnixEventPort& port, int socket_fd) {
  auto watch = kj::heap<HangUpWatch>(port, socket_fd);
  auto promise = watch->watch();
  return promise.attach(kj::mv(watch));
}

}  // namespace terrace::inference
