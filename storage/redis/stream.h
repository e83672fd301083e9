// A non-blocking connection that carries bytes: plain TCP or TLS.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>

#include "core/status.h"
#include "core/unique_fd.h"
#include "storage/redis/redis_options.h"

namespace terrace::storage::redis {

// Of one read or write.
struct Transfer {
  std::size_t bytes = 0;     // 0: nothing can be transferred now
  bool wants_write = false;  // when 0: until the socket can be written, not read
};

class Stream {
 public:
  virtual ~Stream() = default;

  // Called when the socket has connected, and again whenever it is ready, until it returns true:
  // bytes may be carried. What the peer's certificate does not satisfy is an unavailable.
  virtual Result<bool> secure(bool& wants_write) = 0;

  // Fills the buffers from the first on, as far as there are bytes. unavailable: the other side has
  // closed or the connection is broken.
  virtual Result<Transfer> receive(std::span<const iovec> buffers) = 0;
  virtual Result<Transfer> send(std::span<const iovec> buffers) = 0;
  // Whether receive() may have more although the socket has not.
  virtual bool buffered() const = 0;
};

// Over a connected (or connecting) non-blocking socket, which stays the caller's.
std::unique_ptr<Stream> make_tcp_stream(int socket);

// The certificates and settings that all connections share.
class TlsContext {
 public:
  virtual ~TlsContext() = default;
  virtual Result<std::unique_ptr<Stream>> make_stream(int socket, const RedisEndpoint& to) = 0;
};
// io_error if a file cannot be read or is none of its kind.
Result<std::unique_ptr<TlsContext>> make_tls_context(const RedisTlsOptions& options);

}  // namespace terrace::storage::redis
