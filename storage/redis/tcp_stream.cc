#include <sys/socket.h>

#include <cerrno>

#include "storage/redis/stream.h"

namespace terrace::storage::redis {

namespace {

class TcpStream final : public Stream {
 public:
  explicit TcpStream(int socket) : socket_(socket) {}

  Result<bool> secure(bool&) override { return true; }

  Result<Transfer> receive(std::span<const iovec> buffers) override {
    msghdr message = to_message(buffers);
    ssize_t bytes;
    do bytes = ::recvmsg(socket_, &message, 0);
    while (bytes < 0 && errno == EINTR);
    if (bytes == 0) return error(StatusCode::unavailable, "the server closed the connection");
    return outcome(bytes, false, "receiving failed");
  }

  Result<Transfer> send(std::span<const iovec> buffers) override {
    const msghdr message = to_message(buffers);
    ssize_t bytes;
    do bytes = ::sendmsg(socket_, &message, MSG_NOSIGNAL);
    while (bytes < 0 && errno == EINTR);
    return outcome(bytes, true, "sending failed");
  }

  bool buffered() const override { return false; }

 private:
  static msghdr to_message(std::span<const iovec> buffers) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(buffers.data());
    message.msg_iovlen = buffers.size();
    return message;
  }

  static Result<Transfer> outcome(ssize_t bytes, bool writing, const char* what) {
    if (bytes >= 0) return Transfer{static_cast<std::size_t>(bytes), false};
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Transfer{0, writing};
    return error(StatusCode::unavailable, errno_status(errno, what).message());
  }

  const int socket_;
};

}  // namespace

std::unique_ptr<Stream> make_tcp_stream(int socket) { return std::make_unique<TcpStream>(socket); }

}  // namespace terrace::storage::redis
