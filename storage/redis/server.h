// One server: its connections, what waits for them, and whether it is asked at all.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "storage/redis/breaker.h"
#include "storage/redis/command.h"
#include "storage/redis/connection.h"
#include "storage/redis/environment.h"
#include "storage/redis/resolver.h"

namespace terrace::storage::redis {

// What a connection may have under way of values before it is given more. To receive: of large ones
// one at a time, of small ones enough to hide the round trip. To send: enough that the server never
// waits for the next.
constexpr std::uint64_t read_window_bytes = mib;
constexpr std::uint64_t write_window_bytes = 16 * mib;

class Server final : public Connection::Owner {
 public:
  // These may queue commands, at this server too, and say what they learned of it; no more.
  class Owner {
   public:
    virtual void replied(Server& server, Command& command, Reply reply) = 0;
    virtual void received(Server& server, Command& command, Result<std::uint64_t> outcome) = 0;
    virtual void spoiled(Command& command) = 0;
    // The server will not answer this command; `why` says what became of it. It may be asked again,
    // here or elsewhere, where that is of use.
    virtual void lost(Server& server, std::unique_ptr<Command> command, const Status& why) = 0;
    // The breaker opened, `anew` unless a probe failed; or closed again.
    virtual void breaker_opened(Server& server, const std::string& why, bool anew) = 0;
    virtual void breaker_closed(Server& server) = 0;
    // The command that asks whether the server is well.
    virtual std::unique_ptr<Command> make_probe(const Server& server) = 0;
    // Looks the server's name up; the answer comes to resolved().
    virtual void resolve(const RedisEndpoint& endpoint) = 0;

   protected:
    ~Owner() = default;
  };

  Server(Environment& environment, const RedisEndpoint& endpoint, Owner& owner, std::uint64_t seed);

  const RedisEndpoint& endpoint() const { return endpoint_; }
  Breaker breaker() const { return breaker_.state(); }
  bool asked() const { return breaker_.closed(); }
  bool idle() const;

  // Queues a command. Only while asked().
  void enqueue(std::unique_ptr<Command> command);
  // Connects where it is time to, sends what may be sent, closes what takes too long.
  void run(std::int64_t now_ns);
  std::int64_t due_ns() const;
  bool has_more() const;

  void resolved(Result<Addresses> addresses);
  // Whether a request waits because this server is silent. One that is merely behind many others is
  // not: a server that has much to send is well.
  bool keeps_waiting(const Task& task, std::int64_t now_ns) const;
  // It kept some waiting until they were late: one failure, for they waited for the same thing.
  void timed_out() { fail("no answer in time"); }
  // It answered, and of use: what the breaker waited for.
  void answered();
  // It says that it answers nothing for now.
  void not_ready(const std::string& why);
  // It takes no writes for a while, and this is what they are told.
  void pause_writes(Status why);
  // ok unless writes are paused.
  Status writes_paused(std::int64_t now_ns) const;

 private:
  void ready(Connection& connection) override;
  void replied(Command& command, Reply reply) override;
  void received(Command& command, Result<std::uint64_t> outcome) override;
  void spoiled(Command& command) override { owner_.spoiled(command); }
  void closed(Connection& connection, const Status& why, bool at_fault,
              std::deque<std::unique_ptr<Command>> commands, std::size_t sent) override;

  void fail(const std::string& why);
  void opened(const std::string& why);
  void connect(Connection& connection);
  void try_next_address();
  void connect_due(std::int64_t now_ns);
  bool has_queued(const Task& task) const;
  void dispatch();
  Connection* least_busy(bool for_writes) const;
  void dispatch_values(std::deque<std::unique_ptr<Command>>& queue, bool for_writes);
  Connection& small() { return *connections_.front(); }
  const Connection& small() const { return *connections_.front(); }

  Environment& environment_;
  const RedisEndpoint endpoint_;
  Owner& owner_;
  CircuitBreaker breaker_;
  Backoff reconnect_;
  std::int64_t connect_at_ns_ = 0, lost_at_ns_ = std::numeric_limits<std::int64_t>::min() / 2;
  bool resolving_ = false, ever_ready_ = false;
  bool hang_up_ = false;     // the breaker opened: nothing is expected from these connections
  bool dirty_ = false;       // commands were queued since they were last sent
  bool known_open_ = false;  // the breaker has not closed since
  bool probing_ = false;     // half open, and the probe was sent
  // What the endpoint's name stands for, and which of these is tried; empty: to be looked up.
  Addresses addresses_;
  std::size_t address_ = 0;
  std::int64_t writes_paused_until_ns_ = 0;
  Status writes_paused_why_;

  // The first is for small commands, which so never wait for values; the last is for values that
  // are written, so that those that somebody waits for never wait for them, unless it is the only
  // one for values.
  std::vector<std::unique_ptr<Connection>> connections_;
  std::deque<std::unique_ptr<Command>> small_queue_, read_queue_, write_queue_;
};

}  // namespace terrace::storage::redis
