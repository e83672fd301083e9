// Notices that a client has closed its connection while it waits for an answer.
#pragma once

#include <kj/async-io.h>
#include <kj/async-unix.h>

namespace terrace::inference {

// Fails with a DISCONNECTED exception once the other side of the socket has closed (also half of
// it, as HTTP clients do not do otherwise); never completes else. Reads nothing. The descriptor may
// be closed meanwhile: a duplicate is watched.
kj::Promise<void> when_hung_up(kj::UnixEventPort& port, int socket_fd);

}  // namespace terrace::inference
