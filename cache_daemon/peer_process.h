// The process at the other end of a connection, watched beyond the connection's end: as long as it
// lives it can touch the arenas it has mapped.
#pragma once

#include <kj/async-io.h>
#include <kj/async-unix.h>
#include <sys/types.h>

#include "core/unique_fd.h"

namespace terrace::daemon {

class PeerProcess {
 public:
  // `pid` as the kernel told it for the socket; 0 for a process of another pid namespace, which
  // nothing can be told of: it counts as alive.
  PeerProcess(kj::UnixEventPort& port, pid_t pid);

  // Of a client over the network: it touches no memory of this host, and nothing can be told of it.
  explicit PeerProcess() : pid_(0), remote_(true) {}

  // Whether it may touch arenas for as long as it is alive.
  bool shares_memory() const { return !remote_; }
  pid_t pid() const { return pid_; }
  // False if the kernel refused to say when this process ends, say for want of descriptors: what it
  // held would be held for ever.
  bool can_be_watched() const { return pid_ <= 0 || gone_ || pidfd_; }
  bool alive() const;
  // Never true of processes that nothing can be told of.
  bool is_same_process(const PeerProcess& other) const {
    // A pid cannot have gone to another process while the first one lives.
    return pid_ > 0 && pid_ == other.pid_ && alive();
  }
  // Resolves when the process has ended. Call once.
  kj::Promise<void> when_ended();

 private:
  pid_t pid_;
  bool remote_ = false;
  bool gone_ = false;
  UniqueFd pidfd_;
  kj::Maybe<kj::Own<kj::UnixEventPort::FdObserver>> observer_;
};

}  // namespace terrace::daemon
