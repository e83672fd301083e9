#include "tests/support/tcp_proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace terrace::test_support {

namespace {

constexpr std::size_t chunk_bytes = 64 * 1024;
// What is held back of one way before it is not read any more, so that the sender feels it.
constexpr std::size_t max_chunks = 64;

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void make_prompt(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::fcntl(socket, F_SETFL, O_NONBLOCK);
}

}  // namespace

TcpProxy::TcpProxy(std::uint16_t target_port)
    : target_port_(target_port),
      listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  sockaddr_in address = loopback(0);
  socklen_t length = sizeof address;
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::listen(listener_.get(), 64) != 0 ||
      ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    std::perror("proxy");
    std::abort();
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { run(); });
}

TcpProxy::~TcpProxy() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake();
  thread_.join();
}

void TcpProxy::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
}

void TcpProxy::stall(bool on) {
  const std::lock_guard lock(mutex_);
  stalled_ = on;
  wake();
}

void TcpProxy::stall_after(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  stall_in_bytes_ = bytes;
}

void TcpProxy::cut_after(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  cut_in_bytes_ = bytes;
}

void TcpProxy::corrupt_after(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  corrupt_in_bytes_ = bytes;
}

void TcpProxy::delay_ms(std::int64_t ms) {
  const std::lock_guard lock(mutex_);
  delay_ms_ = ms;
}

void TcpProxy::throttle(std::int64_t bytes_per_ms) {
  const std::lock_guard lock(mutex_);
  bytes_per_ms_ = bytes_per_ms;
}

bool TcpProxy::done() const {
  const std::lock_guard lock(mutex_);
  return cut_in_bytes_ == never && corrupt_in_bytes_ == never && stall_in_bytes_ == never;
}

void TcpProxy::run() {
  for (;;) {
    std::vector<pollfd> watched = {{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    std::int64_t next_ms = -1;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      const std::int64_t now = now_ms();
      for (Pair& pair : pairs_) {
        for (Way& way : pair.ways) {
          short events = 0;
          if (!stalled_ && !way.ended && way.chunks.size() < max_chunks) events |= POLLIN;
          watched.push_back({way.from, events, 0});
          const bool due = !stalled_ && !way.chunks.empty() && way.chunks.front().due_ms <= now;
          watched.push_back({way.to, static_cast<short>(due ? POLLOUT : 0), 0});
          if (!stalled_ && !due && !way.chunks.empty()) {
            const std::int64_t wait = way.chunks.front().due_ms - now;
            next_ms = next_ms < 0 ? wait : std::min(next_ms, wait);
          }
        }
      }
    }
    // A descriptor that asks for nothing would still report a hang-up, again and again.
    for (pollfd& one : watched)
      if (one.events == 0) one.fd = -1;
    ::poll(watched.data(), watched.size(), static_cast<int>(next_ms));
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t bytes = ::read(wake_.get(), &count, sizeof count);
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      std::size_t at = 2;
      const std::int64_t now = now_ms();
      for (Pair& pair : pairs_) {
        for (Way& way : pair.ways) {
          if (watched[at++].revents != 0 && !stalled_) receive(pair, way);
          if (watched[at++].revents != 0 && !stalled_) pass_on(pair, way, now);
        }
      }
      if (cut_in_bytes_ == 0) {
        cut_in_bytes_ = never;
        for (Pair& pair : pairs_) pair.closed = true;
      }
      pairs_.remove_if([](const Pair& pair) {
        return pair.closed || (pair.ways[0].ended && pair.ways[0].chunks.empty()) ||
               (pair.ways[1].ended && pair.ways[1].chunks.empty());
      });
      if (watched[1].revents != 0) accept();
    }
  }
}

void TcpProxy::accept() {
  UniqueFd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!client) return;
  UniqueFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(target_port_);
  if (::connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return;  // and the client sees its connection closed
  make_prompt(client.get());
  make_prompt(server.get());
  Pair pair;
  pair.ways[0].from = pair.ways[1].to = client.get();
  pair.ways[0].to = pair.ways[1].from = server.get();
  pair.ways[1].from_server = true;
  pair.client = std::move(client);
  pair.server = std::move(server);
  pairs_.push_back(std::move(pair));
}

void TcpProxy::receive(Pair& pair, Way& way) {
  Chunk chunk;
  chunk.bytes.resize(chunk_bytes);
  const ssize_t bytes = ::recv(way.from, chunk.bytes.data(), chunk.bytes.size(), 0);
  if (bytes < 0 && errno == EAGAIN) return;
  if (bytes < 0) pair.closed = true;
  if (bytes <= 0) {
    way.ended = true;
    return;
  }
  auto length = static_cast<std::uint64_t>(bytes);
  if (way.from_server) {
    if (corrupt_in_bytes_ < length) {
      chunk.bytes[corrupt_in_bytes_] ^= 0x10;
      corrupt_in_bytes_ = never;
    } else if (corrupt_in_bytes_ != never) {
      corrupt_in_bytes_ -= length;
    }
    if (cut_in_bytes_ != never) {
      length = std::min(length, cut_in_bytes_);
      cut_in_bytes_ -= length;
    }
    chunk.due_ms = now_ms() + delay_ms_;
    if (bytes_per_ms_ > 0) {
      next_ms_ = std::max(next_ms_, static_cast<double>(chunk.due_ms)) +
                 static_cast<double>(length) / static_cast<double>(bytes_per_ms_);
      chunk.due_ms = static_cast<std::int64_t>(next_ms_);
    }
    if (stall_in_bytes_ < length) {
      Chunk before;
      before.due_ms = chunk.due_ms;
      before.bytes.assign(chunk.bytes.begin(),
                          chunk.bytes.begin() + static_cast<std::ptrdiff_t>(stall_in_bytes_));
      chunk.bytes.erase(chunk.bytes.begin(),
                        chunk.bytes.begin() + static_cast<std::ptrdiff_t>(stall_in_bytes_));
      length -= stall_in_bytes_;
      if (!before.bytes.empty()) way.chunks.push_back(std::move(before));
      pass_on(pair, way, std::numeric_limits<std::int64_t>::max());
      stall_in_bytes_ = never;
      stalled_ = true;
    } else if (stall_in_bytes_ != never) {
      stall_in_bytes_ -= length;
    }
  }
  chunk.bytes.resize(length);
  if (length > 0) way.chunks.push_back(std::move(chunk));
  // What came before the cut arrives.
  if (cut_in_bytes_ == 0) pass_on(pair, way, std::numeric_limits<std::int64_t>::max());
}

void TcpProxy::pass_on(Pair& pair, Way& way, std::int64_t now) {
  while (!way.chunks.empty() && way.chunks.front().due_ms <= now) {
    Chunk& chunk = way.chunks.front();
    const ssize_t bytes = ::send(way.to, chunk.bytes.data() + chunk.written,
                                 chunk.bytes.size() - chunk.written, MSG_NOSIGNAL);
    if (bytes < 0 && errno == EAGAIN) return;
    if (bytes < 0) {
      pair.closed = true;
      return;
    }
    chunk.written += static_cast<std::size_t>(bytes);
    if (chunk.written == chunk.bytes.size()) way.chunks.pop_front();
  }
}

}  // namespace terrace::test_support
