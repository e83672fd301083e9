#include "bench/bare_redis.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <deque>
#include <memory>
#include <utility>

#include "storage/redis/resolver.h"

namespace terrace::bench {

namespace {

using Steady = std::chrono::steady_clock;

double milliseconds_since(Steady::time_point begin) {
  return std::chrono::duration<double, std::milli>(Steady::now() - begin).count();
}

std::string bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

// The buffers behind the first `done` bytes of `all`.
void rest_of(std::span<const iovec> all, std::size_t done, std::vector<iovec>& rest) {
  for (const iovec& one : all) {
    const std::size_t skipped = std::min(done, one.iov_len);
    done -= skipped;
    if (skipped < one.iov_len)
      rest.push_back({static_cast<char*>(one.iov_base) + skipped, one.iov_len - skipped});
  }
}

std::size_t bytes_of(std::span<const iovec> all) {
  std::size_t sum = 0;
  for (const iovec& one : all) sum += one.iov_len;
  return sum;
}

}  // namespace

Result<BareRedis> BareRedis::connect(const storage::RedisEndpoint& endpoint) {
  BareRedis bare;
  bare.epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  const auto address = storage::redis::parse_address(endpoint);
  if (!address) return error(StatusCode::invalid_argument, endpoint.host + " is no address");
  for (std::size_t i = 0; i < max_connections; ++i) {
    UniqueFd socket(::socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address->storage),
                  address->length) != 0)
      return error(StatusCode::unavailable, "nobody answers at " + to_string(endpoint));
    ::fcntl(socket.get(), F_SETFL, O_NONBLOCK);
    bare.sockets_.push_back(std::move(socket));
  }
  return bare;
}

Result<double> BareRedis::run(std::size_t count, Shape shape, const MakeExchange& make,
                              const CheckExchange& good) {
  struct Line {
    std::deque<std::unique_ptr<Exchange>> under_way;
    std::size_t sending = 0, sent = 0, received = 0;  // of its first that is not wholly sent; ...
    bool wants_write = false;
  };
  std::vector<Line> lines(shape.connections);
  std::vector<std::unique_ptr<Exchange>> idle;
  for (std::size_t i = 0; i < shape.connections; ++i) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = i;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, sockets_[i].get(), &event);
  }
  std::size_t started = 0, finished = 0;
  std::vector<iovec> buffers;

  const auto send = [&](std::size_t at) -> Status {
    Line& line = lines[at];
    bool blocked = false;
    while (line.sending < line.under_way.size() && !blocked) {
      buffers.clear();
      rest_of(line.under_way[line.sending]->out, line.sent, buffers);
      msghdr message{};
      message.msg_iov = buffers.data();
      message.msg_iovlen = buffers.size();
      const ssize_t bytes = ::sendmsg(sockets_[at].get(), &message, MSG_NOSIGNAL);
      if (bytes < 0 && errno != EAGAIN) return errno_status(errno, "sending failed");
      blocked = bytes < static_cast<ssize_t>(bytes_of(buffers));
      if (bytes > 0) line.sent += static_cast<std::size_t>(bytes);
      if (!blocked) {
        ++line.sending;
        line.sent = 0;
      }
    }
    if (blocked != line.wants_write) {
      line.wants_write = blocked;
      epoll_event event{};
      event.events = blocked ? EPOLLIN | EPOLLOUT : EPOLLIN;
      event.data.u64 = at;
      ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, sockets_[at].get(), &event);
    }
    return {};
  };
  const auto fill = [&](std::size_t at) -> Status {
    Line& line = lines[at];
    while (line.under_way.size() < shape.depth && started < count) {
      if (idle.empty()) idle.push_back(std::make_unique<Exchange>());
      auto exchange = std::move(idle.back());
      idle.pop_back();
      make(started++, *exchange);
      line.under_way.push_back(std::move(exchange));
    }
    return send(at);
  };
  const auto receive = [&](std::size_t at) -> Status {
    Line& line = lines[at];
    buffers.clear();
    for (std::size_t i = 0; i < line.under_way.size(); ++i)
      rest_of(line.under_way[i]->in, i == 0 ? line.received : 0, buffers);
    if (buffers.empty()) return {};
    msghdr message{};
    message.msg_iov = buffers.data();
    message.msg_iovlen = buffers.size();
    const ssize_t bytes = ::recvmsg(sockets_[at].get(), &message, 0);
    if (bytes == 0) return Status(StatusCode::unavailable, "the server closed the connection");
    if (bytes < 0) return errno == EAGAIN ? Status() : errno_status(errno, "receiving failed");
    line.received += static_cast<std::size_t>(bytes);
    while (!line.under_way.empty() && line.received >= bytes_of(line.under_way.front()->in)) {
      line.received -= bytes_of(line.under_way.front()->in);
      if (!good(*line.under_way.front()))
        return Status(StatusCode::io_error, "the server's answer is not the one that was expected");
      idle.push_back(std::move(line.under_way.front()));
      line.under_way.pop_front();
      --line.sending;
      ++finished;
    }
    return fill(at);
  };

  const auto begin = Steady::now();
  Status status;
  for (std::size_t i = 0; i < shape.connections && status.ok(); ++i) status = fill(i);
  while (finished < count && status.ok()) {
    std::array<epoll_event, max_connections> events;
    const int ready = ::epoll_wait(epoll_.get(), events.data(), max_connections, 10'000);
    if (ready == 0) status = Status(StatusCode::deadline_exceeded, "the server does not answer");
    for (int i = 0; i < ready && status.ok(); ++i) {
      const auto& event = events[static_cast<std::size_t>(i)];
      if ((event.events & EPOLLIN) != 0) status = receive(event.data.u64);
      if (status.ok() && (event.events & EPOLLOUT) != 0) status = send(event.data.u64);
    }
  }
  const double elapsed = milliseconds_since(begin);
  for (std::size_t i = 0; i < shape.connections; ++i)
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, sockets_[i].get(), nullptr);
  if (!status.ok()) return error(status);
  return elapsed;
}

Result<double> BareRedis::get_all_ms(std::span<const std::string> names, const PlaceOf& place,
                                     Shape shape) {
  std::string expected;
  return run(
      names.size(), shape,
      [&](std::size_t i, Exchange& exchange) {
        const Place to = place(i);
        expected = "$" + std::to_string(to.header.size() + to.payload.size()) + "\r\n\r\n";
        exchange.sent = "*2\r\n$3\r\nGET\r\n" + bulk(names[i]);
        exchange.received.assign(expected.size(), '\0');
        exchange.out = {{exchange.sent.data(), exchange.sent.size()}};
        exchange.in = {{exchange.received.data(), expected.size() - 2},
                       {to.header.data(), to.header.size()},
                       {to.payload.data(), to.payload.size()},
                       {exchange.received.data() + expected.size() - 2, 2}};
      },
      [&](const Exchange& exchange) { return exchange.received == expected; });
}

Result<double> BareRedis::set_all_ms(std::span<const std::string> names, const PlaceOf& place,
                                     Shape shape) {
  const std::string ok = "+OK\r\n", end = "\r\n$2\r\nPX\r\n$7\r\n3600000\r\n";
  return run(
      names.size(), shape,
      [&](std::size_t i, Exchange& exchange) {
        const Place from = place(i);
        exchange.sent = "*5\r\n$3\r\nSET\r\n" + bulk(names[i]) + "$" +
                        std::to_string(from.header.size() + from.payload.size()) + "\r\n";
        exchange.received.assign(ok.size(), '\0');
        exchange.out = {{exchange.sent.data(), exchange.sent.size()},
                        {from.header.data(), from.header.size()},
                        {from.payload.data(), from.payload.size()},
                        {const_cast<char*>(end.data()), end.size()}};
        exchange.in = {{exchange.received.data(), ok.size()}};
      },
      [&](const Exchange& exchange) { return exchange.received == ok; });
}

Result<double> BareRedis::exists_ms(std::span<const std::string> names) {
  std::string all, expected;
  for (const std::string& name : names) {
    all += "*2\r\n$6\r\nEXISTS\r\n" + bulk(name);
    expected += ":1\r\n";
  }
  return run(
      1, {1, 1},
      [&](std::size_t, Exchange& exchange) {
        exchange.sent = all;
        exchange.received.assign(expected.size(), '\0');
        exchange.out = {{exchange.sent.data(), exchange.sent.size()}};
        exchange.in = {{exchange.received.data(), expected.size()}};
      },
      [&](const Exchange& exchange) { return exchange.received == expected; });
}

}  // namespace terrace::bench
