// The way to a daemon: a Unix socket, or TCP with or without TLS.
#pragma once

#include <capnp/rpc-twoparty.h>
#include <kj/async-io.h>

#include <string>

#include "client/client.h"
#include "core/status.h"

namespace terrace::client {

struct Address {
  enum class Kind { unix_socket, tcp, tls };
  Kind kind = Kind::unix_socket;
  std::string path;        // of a Unix socket
  std::string host, port;  // of the others; "[::1]" without its brackets
};

// Of a path, "unix:PATH", "tcp://HOST:PORT" or "tls://HOST:PORT"; empty: default_socket_path().
// invalid_argument for what is none of these.
Result<Address> parse_address(const std::string& text);

// An open connection, as RPC uses it.
class Transport {
 public:
  Transport(kj::Own<kj::AsyncIoStream> stream, bool shares_memory);

  capnp::TwoPartyClient& rpc() { return *rpc_; }
  // Whether descriptors come through it, and with them arenas.
  bool shares_memory() const { return shares_memory_; }

 private:
  kj::Own<kj::AsyncIoStream> stream_;
  bool shares_memory_;
  kj::Own<capnp::TwoPartyClient> rpc_;
};

// Fails with a kj::Exception whose description is for people. A name is looked up on another
// thread.
kj::Promise<kj::Own<Transport>> open_transport(kj::AsyncIoContext& io, const std::string& address,
                                               const Identity& identity);

// Connects to the Unix socket at `path`. unavailable, with the reason, if nobody is there.
Result<kj::Own<kj::AsyncCapabilityStream>> connect_to_socket(kj::AsyncIoContext& io,
                                                             const std::string& path);

// An exception for people, of the type that says that nobody is there.
kj::Exception connection_failure(const std::string& what);

}  // namespace terrace::client
