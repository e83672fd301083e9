#include "storage/redis/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace terrace::storage::redis {

Connection::Connection(Environment& environment, const RedisEndpoint& endpoint, Owner& owner)
    : environment_(environment),
      endpoint_(endpoint),
      owner_(owner),
      value_(environment.scratch),
      staging_(staging_bytes) {}

Connection::~Connection() {
  if (is_closed()) return;
  environment_.counters.connections.fetch_sub(1);
  environment_.counters.in_flight_bytes.fetch_sub(value_bytes_);
}

bool Connection::has(const Task& task) const {
  return std::ranges::any_of(commands_,
                             [&task](const auto& command) { return command->task() == &task; });
}

void Connection::open(const SocketAddress& address) {
  opened_ns_ = progress_ns_ = flowed_ns_ = environment_.now_ns();
  state_ = State::connecting;
  environment_.counters.connections.fetch_add(1);
  const auto failed = [this](const char* what) {
    close(Status(StatusCode::unavailable, errno_status(errno, what).message()), true);
  };
  socket_.reset(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket_) return failed("cannot make a socket");
  const int on = 1;
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUF, &send_buffer_bytes, sizeof send_buffer_bytes);
  epoll_event event{};
  event.events = watched_ = EPOLLIN | EPOLLOUT;
  event.data.ptr = this;
  if (::epoll_ctl(environment_.epoll_fd, EPOLL_CTL_ADD, socket_.get(), &event) != 0)
    return failed("cannot watch a socket");
  if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address.storage),
                address.length) != 0 &&
      errno != EINPROGRESS)
    failed("cannot connect");
}

void Connection::close(const Status& why, bool at_fault) {
  if (is_closed()) return;
  state_ = State::closed;
  environment_.counters.connections.fetch_sub(1);
  stream_.reset();
  socket_.reset();  // and with it what epoll knows of it
  value_.abandon();
  wants_write_ = has_more_ = begun_ = false;
  watched_ = 0;
  staged_begin_ = staged_end_ = 0;
  structured_.reset();
  std::deque<std::unique_ptr<Command>> commands = std::exchange(commands_, {});
  const std::size_t begun = std::exchange(sending_, 0) + (sent_bytes_ > 0 ? 1 : 0);
  sent_bytes_ = verified_ = verified_bytes_ = 0;
  environment_.counters.in_flight_bytes.fetch_sub(std::exchange(value_bytes_, 0));
  if (!commands.empty() && commands.front()->kind == Command::Kind::greet) commands.clear();
  owner_.closed(*this, why, at_fault, std::move(commands), begun);
}

void Connection::send(std::unique_ptr<Command> command) {
  // What was asked last is waited for from now on.
  if (commands_.empty()) flowed();
  value_bytes_ += command->value_bytes;
  environment_.counters.in_flight_bytes.fetch_add(command->value_bytes);
  commands_.push_back(std::move(command));
}

void Connection::flush() {
  if (state_ != State::ready) return;
  const Outcome outcome = send_queued();
  if (!outcome) return close(outcome.error().why, outcome.error().at_fault);
  watch();
}

void Connection::on_event() {
  if (is_closed()) return;
  has_more_ = false;
  const Outcome outcome = advance();
  if (!outcome) return close(outcome.error().why, outcome.error().at_fault);
  watch();
}

Connection::Outcome Connection::advance() {
  if (state_ == State::connecting) {
    int failure = 0;
    socklen_t length = sizeof failure;
    ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &failure, &length);
    if (failure == 0) {
      // Events may come before the connection does.
      sockaddr_storage peer;
      length = sizeof peer;
      if (::getpeername(socket_.get(), reinterpret_cast<sockaddr*>(&peer), &length) != 0) return {};
    } else {
      return tl::unexpected(
          End{Status(StatusCode::unavailable, errno_status(failure, "cannot connect").message())});
    }
    if (environment_.tls) {
      auto stream = environment_.tls->make_stream(socket_.get(), endpoint_);
      if (!stream) return tl::unexpected(End{stream.error()});
      stream_ = std::move(*stream);
    } else {
      stream_ = make_tcp_stream(socket_.get());
    }
    state_ = State::securing;
  }
  if (state_ == State::securing) {
    wants_write_ = false;
    const auto secured = stream_->secure(wants_write_);
    if (!secured) return tl::unexpected(End{secured.error()});
    if (!*secured) return {};
    if (Outcome greeted = greet(); !greeted) return greeted;
  }
  if (Outcome received = receive(); !received) return received;
  return send_queued();
}

// Says who we are and which database is meant; the PING behind it finds a server that is loading,
// lets nobody in, or has lost its master.
Connection::Outcome Connection::greet() {
  state_ = State::greeting;
  const RedisOptions& options = environment_.options;
  auto command = std::make_unique<Command>();
  command->kind = Command::Kind::greet;
  command->replies = 0;
  const auto add = [&command](std::initializer_list<std::string_view> arguments) {
    append_command(command->text, {arguments.begin(), arguments.size()});
    ++command->replies;
  };
  if (!options.password.empty()) {
    if (options.user.empty())
      add({"AUTH", options.password});
    else
      add({"AUTH", options.user, options.password});
  }
  if (options.database != 0) add({"SELECT", std::to_string(options.database)});
  add({"PING"});
  send(std::move(command));
  return {};
}

void Connection::watch() {
  if (is_closed()) return;
  const std::uint32_t events =
      EPOLLIN | (state_ == State::connecting || wants_write_ ? EPOLLOUT : 0u);
  if (events == watched_) return;
  watched_ = events;
  epoll_event event{};
  event.events = events;
  event.data.ptr = this;
  ::epoll_ctl(environment_.epoll_fd, EPOLL_CTL_MOD, socket_.get(), &event);
}

std::int64_t Connection::due_ns() const {
  if (is_closed()) return no_time_ns;
  if (state_ != State::ready) return opened_ns_ + environment_.options.connect_timeout_ms * ns_a_ms;
  if (commands_.empty()) return no_time_ns;
  return progress_ns_ + environment_.options.request_timeout_ms * ns_a_ms;
}

void Connection::check_time(std::int64_t now_ns) {
  if (now_ns < due_ns()) return;
  if (state_ != State::ready)
    close(Status(StatusCode::unavailable, state_ == State::connecting
                                              ? "connecting timed out"
                                              : "the server did not greet in time"),
          true);
  else
    close(Status(StatusCode::unavailable, "no answer within the request timeout"), true);
}

// Sending.

Connection::Outcome Connection::send_queued() {
  wants_write_ = false;
  for (;;) {
    drop_given_up();
    if (sending_ == commands_.size()) return {};
    if (commands_[sending_]->given_up() && !commands_[sending_]->payload.empty())
      return tl::unexpected(
          End{Status(StatusCode::unavailable, "a write was given up in its middle"), false});
    std::size_t bytes = gather(gathered_);
    if (bytes == 0) {
      if (Outcome verified = verify_next(); !verified) return verified;
      bytes = gather(gathered_);
      if (bytes == 0) continue;  // the first turned out to be wrong
    }
    begun_ = true;
    const auto transfer = stream_->send(gathered_);
    if (!transfer) return tl::unexpected(End{transfer.error()});
    if (transfer->bytes == 0) {
      wants_write_ = transfer->wants_write;
      return {};
    }
    if (commands_[sending_]->payload.empty())
      progress();
    else
      flowed();
    sent(transfer->bytes);
    if (transfer->bytes < bytes) {
      // The stream may have begun with the next command already.
      begun_ = wants_write_ = true;
      return {};
    }
  }
}

// Nothing of a payload is sent that was not hashed, and the last of it only if the hash is right: a
// value that is not what it should be never becomes complete at the server. It is hashed and sent
// in large parts: small ones, with a pause for the hash between them, would each wake the server
// anew.
Connection::Outcome Connection::verify_next() {
  if (verified_ < sending_) {
    verified_ = sending_;
    verified_bytes_ = 0;
  }
  if (sending_ == commands_.size()) return {};
  // Of what was hashed, the part that was not sent.
  std::size_t ahead = verified_bytes_;
  for (std::size_t i = sending_; i < verified_; ++i) ahead += commands_[i]->payload.size();
  const Command& first = *commands_[sending_];
  ahead -=
      std::min(first.payload.size(), std::max(sent_bytes_, first.text.size()) - first.text.size());
  while (verified_ < commands_.size() && ahead < min_burst_bytes) {
    Command& command = *commands_[verified_];
    const std::size_t whole = command.payload.size();
    if (whole > 0) {
      if (command.given_up()) return {};
      if (verified_bytes_ == 0) command.write->checksum = GrowingChecksum(command.payload);
      const std::size_t until = std::min(whole, verified_bytes_ + max_burst_bytes);
      command.write->checksum.advance(until);
      ahead += until - verified_bytes_;
      verified_bytes_ = until;
      if (until < whole) return {};
      if (command.write->checksum.finish() != command.write->request.payload_checksum) {
        verified_bytes_ = 0;
        owner_.spoiled(command);
        // One that was not begun is dropped when its turn comes.
        if (verified_ > sending_ || !begun_) return {};
        return tl::unexpected(
            End{Status(StatusCode::corruption, "a write was not what it should be"), false});
      }
    }
    ++verified_;
    verified_bytes_ = 0;
  }
  return {};
}

// What may be sent now: whole commands, as far as their payloads were hashed.
std::size_t Connection::gather(std::vector<iovec>& buffers) const {
  buffers.clear();
  std::size_t sum = 0;
  std::size_t skip = sent_bytes_;
  const auto add = [&](const void* data, std::size_t bytes) {
    const std::size_t skipped = std::min(skip, bytes);
    skip -= skipped;
    if (bytes == skipped) return;
    buffers.push_back(
        {const_cast<char*>(static_cast<const char*>(data)) + skipped, bytes - skipped});
    sum += bytes - skipped;
  };
  for (std::size_t i = sending_; i < commands_.size() && buffers.size() < max_gathered; ++i) {
    const Command& command = *commands_[i];
    const std::size_t whole = command.payload.size();
    const std::size_t hashed = i < verified_ ? whole : i == verified_ ? verified_bytes_ : 0;
    if ((whole > 0 && hashed == 0) || (i > sending_ && command.given_up())) break;
    add(command.text.data(), command.text.size());
    if (whole == 0) continue;
    add(command.payload.data(), hashed);
    if (hashed < whole) break;
    add(command.suffix.data(), command.suffix.size());
  }
  return sum;
}

void Connection::sent(std::size_t bytes) {
  sent_bytes_ += bytes;
  while (sending_ < commands_.size() && sent_bytes_ >= commands_[sending_]->bytes()) {
    sent_bytes_ -= commands_[sending_]->bytes();
    ++sending_;
    begun_ = sent_bytes_ > 0;
  }
}

// What nobody waits for any more and was not begun need not be sent.
void Connection::drop_given_up() {
  while (sending_ < commands_.size() && !begun_ && commands_[sending_]->given_up()) {
    value_bytes_ -= commands_[sending_]->value_bytes;
    environment_.counters.in_flight_bytes.fetch_sub(commands_[sending_]->value_bytes);
    commands_.erase(commands_.begin() + static_cast<std::ptrdiff_t>(sending_));
    if (verified_ > sending_)
      --verified_;
    else
      verified_bytes_ = 0;
  }
}

}  // namespace terrace::storage::redis
