// Everything that lives on the connection's thread: the link, as long as there is one, the spaces,
// and the timers that bring the link back.
#pragma once

#include <kj/async-io.h>
#include <kj/async-unix.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "client/call.h"
#include "client/client.h"
#include "client/connection_state.h"
#include "client/ledger.h"
#include "client/link.h"
#include "client/remote_space.h"
#include "client/task_queue.h"

namespace terrace::client {

// Names a space among those of one client.
using SpaceNumber = std::uint64_t;

class Engine final : private kj::TaskSet::ErrorHandler {
 public:
  Engine(kj::AsyncIoContext& io, ClientOptions options, TaskQueue& queue, ConnectionState& state);
  ~Engine();

  // Runs until stop(). What is under way then is dropped.
  void run();

  // What other threads post:
  void stop();
  void open_space(SpaceNumber number, const SpaceDescriptor& descriptor);
  void close_space(SpaceNumber number);
  // Null once closed.
  RemoteSpace* space(SpaceNumber number);
  void ping(std::size_t request_bytes, std::size_t reply_bytes, Answer<std::monostate> answer);
  void flush(Answer<std::monostate> answer) { ledger_.when_answered(std::move(answer)); }
  // A caller has given up at its deadline: finds out whether anybody answers at all.
  void suspect_stall();

 private:
  // A session of an earlier link that slots of this process may still belong to.
  struct OldSession {
    std::string boot_id;
    std::uint64_t id = 0;
    std::weak_ptr<const SessionArena> arena;
  };

  kj::Promise<void> take_tasks_forever();
  kj::Promise<void> look_after_forever();
  void connect();
  void connected(kj::Own<Link> link);
  void disconnected(const std::string& why);
  void probe_answered();
  void set_stalled(bool stalled);
  // Tells the daemon of old sessions whose last slot is gone.
  void disown_old_sessions();
  kj::Duration next_pause();
  void tell(bool connected, const std::string& why);
  void taskFailed(kj::Exception&& exception) override;

  kj::AsyncIoContext& io_;
  kj::Timer& timer_;
  const ClientOptions options_;
  TaskQueue& queue_;
  ConnectionState& state_;
  kj::UnixEventPort::FdObserver queue_observer_;
  kj::PromiseFulfillerPair<void> stop_ = kj::newPromiseAndFulfiller<void>();
  std::minstd_rand random_;
  Ledger ledger_;
  std::unordered_map<SpaceNumber, std::shared_ptr<RemoteSpace>> spaces_;
  std::vector<std::shared_ptr<RemoteSpace>> closing_spaces_;
  std::vector<OldSession> old_sessions_;
  std::chrono::milliseconds pause_{};
  bool told_ = false;
  bool stalled_ = false;
  bool probing_ = false;
  kj::Own<Link> link_;
  kj::TaskSet tasks_;
};

}  // namespace terrace::client
