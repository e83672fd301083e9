// One connection to a server: commands go out in their order, replies come back in the same. It
// blocks nowhere; whoever owns it tells it of events, of time and of what to send.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "storage/redis/command.h"
#include "storage/redis/environment.h"
#include "storage/redis/reply.h"
#include "storage/redis/resp.h"
#include "storage/redis/stream.h"
#include "storage/redis/value_reader.h"

namespace terrace::storage::redis {

// For what comes before a value's payload, and for all other replies.
constexpr std::size_t staging_bytes = 32 * 1024;
// Buffers that are handed to the socket at once, ...
constexpr std::size_t max_gathered = 32;
// ... and payload that is hashed before it: of small values several.
constexpr std::size_t min_burst_bytes = 512 * 1024, max_burst_bytes = 1024 * 1024;

// What the system takes of what is to be sent before the other side has it, about twice this. Left
// to itself it takes many MiB, which then leave the caches before they are copied again: to a
// server on the same machine values of 720 KiB were written at .58 of the speed.
constexpr int send_buffer_bytes = 512 * 1024;

// An address as the system takes it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
};

class Connection {
 public:
  // None of these may open, close or use a connection; they only take note.
  class Owner {
   public:
    virtual void ready(Connection& connection) = 0;
    // A reply to the command that is no value.
    virtual void replied(Command& command, Reply reply) = 0;
    // A get's value: its checksum, or why it is none.
    virtual void received(Command& command, Result<std::uint64_t> outcome) = 0;
    // What a set is to write is not what its checksum says. Nothing is left of it at the server.
    virtual void spoiled(Command& command) = 0;
    // The connection is closed. `at_fault`: the server did not do what it should have done. The
    // commands have not been answered, the first `sent` of them may have been carried out.
    virtual void closed(Connection& connection, const Status& why, bool at_fault,
                        std::deque<std::unique_ptr<Command>> commands, std::size_t sent) = 0;

   protected:
    ~Owner() = default;
  };

  Connection(Environment& environment, const RedisEndpoint& endpoint, Owner& owner);
  ~Connection();
  Connection(const Connection&) = delete;

  bool is_closed() const { return state_ == State::closed; }
  bool is_ready() const { return state_ == State::ready; }
  // Commands that were given to it and have not been answered, and the bytes of their values.
  std::size_t commands() const { return commands_.size(); }
  std::uint64_t value_bytes() const { return value_bytes_; }
  bool has(const Task& task) const;
  // For how long nothing came from the server and it took nothing of a value, though it was to.
  std::int64_t silent_ns(std::int64_t now_ns) const { return now_ns - flowed_ns_; }

  // Begins to connect. A failure is told through closed(), at once or later.
  void open(const SocketAddress& address);
  void close(const Status& why, bool at_fault);
  // Queues a command behind those before it; only while ready. flush() sends.
  void send(std::unique_ptr<Command> command);
  void flush();
  // The socket has news.
  void on_event();
  // Whether on_event() wants to be called again without any.
  bool has_more() const { return has_more_; }

  // When check_time() is to be called.
  std::int64_t due_ns() const;
  // Closes what takes too long.
  void check_time(std::int64_t now_ns);

 private:
  enum class State : std::uint8_t { closed, connecting, securing, greeting, ready };

  // What ends a connection from within.
  struct End {
    Status why;
    bool at_fault = true;
  };
  using Outcome = tl::expected<void, End>;

  Outcome advance();
  Outcome greet();
  Outcome receive();
  Outcome parse();
  Outcome parse_line(std::string_view line);
  Outcome handle(Reply reply);
  Outcome begin_value(std::string_view length);
  Outcome send_queued();
  Outcome verify_next();
  std::size_t gather(std::vector<iovec>& buffers) const;
  void sent(std::size_t bytes);
  void drop_given_up();
  void answered_front();
  std::size_t staging_wanted() const;
  std::size_t wanted_of(const Command& command) const;
  std::string_view staged() const;
  void watch();
  void progress() { progress_ns_ = environment_.now_ns(); }
  // Progress that the server has a part in: the system takes small commands also for a dead one.
  void flowed() { flowed_ns_ = progress_ns_ = environment_.now_ns(); }

  Environment& environment_;
  const RedisEndpoint endpoint_;
  Owner& owner_;

  State state_ = State::closed;
  UniqueFd socket_;
  std::unique_ptr<Stream> stream_;
  std::uint32_t watched_ = 0;  // events
  bool wants_write_ = false, has_more_ = false;
  std::int64_t opened_ns_ = 0, progress_ns_ = 0, flowed_ns_ = 0;

  std::deque<std::unique_ptr<Command>> commands_;  // in the order of their replies
  std::uint64_t value_bytes_ = 0;
  std::size_t sending_ = 0;         // the first that is not wholly sent
  std::size_t sent_bytes_ = 0;      // of it
  bool begun_ = false;              // it was offered to the stream
  std::size_t verified_ = 0;        // the first whose payload, if any, was not wholly hashed
  std::size_t verified_bytes_ = 0;  // of it

  ValueReader value_;
  ReplyReader structured_;
  std::vector<std::byte> staging_;
  std::size_t staged_begin_ = 0, staged_end_ = 0;
  std::vector<iovec> gathered_;
};

}  // namespace terrace::storage::redis
