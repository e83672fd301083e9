// One client's connection: its RPC system, and the reasons to end it.
#pragma once

#include <capnp/rpc-twoparty.h>
#include <kj/async-io.h>

#include <memory>

#include "cache_daemon/context.h"
#include "cache_daemon/peer.h"

namespace terrace::daemon {

class Connection {
 public:
  Connection(Context& context, kj::Own<kj::AsyncIoStream> stream, Credentials credentials);
  // Tells the session table that the session, if any, has lost its connection.
  ~Connection();
  KJ_DISALLOW_COPY(Connection);

  // Resolves when the connection is over: the client went, sent what is no message, did not read
  // its answers, did not log in, or its session was ended. Destroy the connection then.
  kj::Promise<void> when_over();

 private:
  class Messages;

  Context& context_;
  std::shared_ptr<Peer> peer_;
  kj::Own<kj::AsyncIoStream> stream_;
  kj::Own<Messages> messages_;
  capnp::TwoPartyVatNetwork network_;
  capnp::RpcSystem<capnp::rpc::twoparty::VatId> rpc_;
};

}  // namespace terrace::daemon
