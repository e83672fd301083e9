// Receiving: values go straight into their place; everything else through a small staging buffer.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "storage/redis/connection.h"

namespace terrace::storage::redis {

namespace {

// A connection that has more than this to receive lets the others have their turn.
constexpr std::size_t max_turn_bytes = 4 * mib;
// No line of a reply is longer: an error's text, say.
constexpr std::size_t max_line_bytes = 4096;

tl::unexpected<Status> broken(std::string what) {
  return error(StatusCode::corruption, "this is not how Redis answers: " + std::move(what));
}

// A server that does not know AUTH quotes its arguments: only the error's code may be repeated.
std::string refused_auth(std::string_view text) {
  const std::string_view code = text.substr(0, text.find(' '));
  const bool is_code = std::ranges::all_of(code, [](char c) { return c >= 'A' && c <= 'Z'; });
  return is_code ? std::string(code) + ": the server refused AUTH" : "the server refused AUTH";
}

std::size_t decimal_digits(std::uint64_t value) {
  std::size_t digits = 1;
  for (; value >= 10; value /= 10) ++digits;
  return digits;
}

}  // namespace

// How much of an answer to this command is to be staged, if it is what is hoped for: no byte of a
// payload, which would have to be copied.
std::size_t Connection::wanted_of(const Command& command) const {
  if (command.kind != Command::Kind::get || command.preamble > 0) return staging_bytes;
  const std::uint64_t length = record_header_bytes + command.read->request.destination.size();
  return sizeof "$\r\n" - 1 + decimal_digits(length) + record_header_bytes;
}

std::size_t Connection::staging_wanted() const {
  if (value_.payload_left() > 0 && value_.other_bytes() > 0) return value_.other_bytes();
  if (!value_.active()) {
    if (commands_.empty()) return staging_bytes;
    const std::size_t wanted = wanted_of(*commands_.front());
    const std::size_t have = staged_end_ - staged_begin_;
    return wanted > have ? wanted - have : 1;
  }
  // The end of this value and what comes behind it.
  const std::size_t next = commands_.size() > 1 ? wanted_of(*commands_[1]) : staging_bytes;
  return (value_.payload_left() > 0 ? 2 : value_.other_bytes()) + next;
}

std::string_view Connection::staged() const {
  return {reinterpret_cast<const char*>(staging_.data()) + staged_begin_,
          staged_end_ - staged_begin_};
}

Connection::Outcome Connection::receive() {
  for (std::size_t turn_bytes = 0;;) {
    if (turn_bytes >= max_turn_bytes) {
      has_more_ = true;
      return {};
    }
    if (staged_begin_ > 0) {
      std::memmove(staging_.data(), staging_.data() + staged_begin_, staged_end_ - staged_begin_);
      staged_end_ -= staged_begin_;
      staged_begin_ = 0;
    }
    iovec buffers[2];
    std::size_t count = 0, asked = 0;
    const auto add = [&](std::byte* to, std::size_t bytes) {
      buffers[count++] = {to, bytes};
      asked += bytes;
    };
    const std::span<std::byte> target = value_.target();
    if (!target.empty()) add(target.data(), target.size());
    if (target.size() == value_.payload_left() || target.empty())
      add(staging_.data() + staged_end_, std::min(staging_wanted(), staging_.size() - staged_end_));

    const auto transfer = stream_->receive({buffers, count});
    if (!transfer) {
      // A server may close a connection that nothing is waited for on.
      return tl::unexpected(End{transfer.error(), !is_ready() || !commands_.empty()});
    }
    if (transfer->bytes == 0) return {};
    flowed();
    turn_bytes += transfer->bytes;
    const std::size_t direct = std::min(transfer->bytes, target.size());
    if (direct > 0) value_.filled(direct);
    staged_end_ += transfer->bytes - direct;
    if (Outcome parsed = parse(); !parsed) return parsed;
    if (transfer->bytes < asked && !stream_->buffered()) return {};
  }
}

Connection::Outcome Connection::parse() {
  const auto end = [](tl::unexpected<Status> why) {
    return tl::unexpected(End{std::move(why.value())});
  };
  while (staged_begin_ < staged_end_) {
    if (value_.active()) {
      staged_begin_ +=
          value_.take(std::span(staging_).subspan(staged_begin_, staged_end_ - staged_begin_));
      if (!value_.complete()) continue;
      if (!value_.framed()) return end(broken("a value without its end"));
      owner_.received(*commands_.front(), value_.finish());
      answered_front();
      continue;
    }
    if (sending_ == 0)  // nothing was wholly sent
      return end(broken("a reply to nothing"));
    // Also what lies under a probe's name, though nothing should.
    const auto kind = commands_.front()->kind;
    if (kind == Command::Kind::slots || kind == Command::Kind::probe ||
        kind == Command::Kind::scan) {
      auto progress = structured_.read(staged());
      if (!progress) return tl::unexpected(End{progress.error()});
      staged_begin_ += progress->consumed;
      if (!progress->reply) continue;
      if (Outcome handled = handle(std::move(*progress->reply)); !handled) return handled;
      continue;
    }
    const std::string_view text = staged();
    const std::size_t length = text.find('\n');
    if (length == std::string_view::npos) {
      if (text.size() > max_line_bytes) return end(broken("a line that does not end"));
      return {};
    }
    if (length == 0 || text[length - 1] != '\r') return end(broken("a line with a wrong end"));
    staged_begin_ += length + 1;
    if (Outcome parsed = parse_line(text.substr(0, length - 1)); !parsed) return parsed;
  }
  return {};
}

Connection::Outcome Connection::parse_line(std::string_view line) {
  const Command& front = *commands_.front();
  if (front.kind == Command::Kind::get && front.preamble == 0 && line.starts_with('$') &&
      line != "$-1")
    return begin_value(line.substr(1));
  auto reply = parse_line_reply(line);
  if (!reply) return tl::unexpected(End{broken(printable(line)).value()});
  return handle(std::move(*reply));
}

Connection::Outcome Connection::begin_value(std::string_view text) {
  std::uint64_t length = 0;
  const char* const end = text.data() + text.size();
  const auto [at, failure] = std::from_chars(text.data(), end, length);
  if (failure != std::errc() || at != end)
    return tl::unexpected(End{broken("a length of " + printable(text)).value()});
  Command& front = *commands_.front();
  if (length <= environment_.options.max_value_bytes) {
    value_.begin(length, front.read);
    return {};
  }
  // It is not worth receiving. The server drops it with the connection.
  Status why(StatusCode::corruption,
             "a value of " + std::to_string(length) + " bytes, which is more than is allowed");
  owner_.received(front, error(why));
  answered_front();
  return tl::unexpected(End{std::move(why), false});
}

Connection::Outcome Connection::handle(Reply reply) {
  Command& front = *commands_.front();
  if (front.preamble > 0) {
    --front.preamble;
    return {};
  }
  ++front.answered;
  if (front.kind == Command::Kind::greet) {
    if (reply.kind == Reply::Kind::error) {
      const bool to_auth = !environment_.options.password.empty() && front.answered == 1;
      return tl::unexpected(End{Status(
          StatusCode::unavailable, to_auth ? refused_auth(reply.text) : printable(reply.text))});
    }
    if (front.answered < front.replies) return {};
    answered_front();
    state_ = State::ready;
    owner_.ready(*this);
    return {};
  }
  owner_.replied(front, std::move(reply));
  if (front.answered == front.replies) answered_front();
  return {};
}

void Connection::answered_front() {
  value_bytes_ -= commands_.front()->value_bytes;
  environment_.counters.in_flight_bytes.fetch_sub(commands_.front()->value_bytes);
  --sending_;
  if (verified_ > 0) --verified_;
  commands_.pop_front();
}

}  // namespace terrace::storage::redis
