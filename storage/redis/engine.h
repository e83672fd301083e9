// What runs behind RedisStore: one thread that owns every connection and decides which server is
// asked for what.
//
//   push() --inbox--> tasks --commands--> servers (by slot) --> connections
//                       ^                     |
//                       +--- replies, losses, redirections, deadlines --> completions
//
// A task is a request; it ends once, with its completion. A command carries a task, or a part of
// one, to a server; a lost one is sent again, a redirected one sent elsewhere, a given-up one
// ignored.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "storage/redis/cluster_map.h"
#include "storage/redis/environment.h"
#include "storage/redis/inbox.h"
#include "storage/redis/keys.h"
#include "storage/redis/negative_cache.h"
#include "storage/redis/server.h"

namespace terrace::storage::redis {

// A command is sent again after so many lost connections, ...
constexpr unsigned max_losses = 2;
// ... and elsewhere so many times.
constexpr unsigned max_redirections = 5;
// Keys that one command deletes at most.
constexpr std::size_t max_unlinked_keys = 1024;
// Names that a server looks at in one go when a space is erased, while all else waits there.
constexpr std::size_t scanned_names = 512;
// What erasing a space may take.
constexpr std::int64_t erase_space_limit_ns = 30'000 * ns_a_ms;
// How often all names are listed again because slots of the cluster moved meanwhile.
constexpr unsigned max_erase_passes = 4;
// Between two times that a cluster is asked for its map.
constexpr std::int64_t map_interval_ns = 200 * ns_a_ms;

class Engine final : Server::Owner {
 public:
  Engine(const RedisOptions& options, std::shared_ptr<const Clock> clock,
         std::unique_ptr<TlsContext> tls, UniqueFd epoll, std::shared_ptr<Inbox> inbox);
  ~Engine();

  // Any thread.
  void push(Message message) { inbox_->push(std::move(message)); }
  bool available() const { return available_.load(std::memory_order_relaxed); }
  void take_completions(std::vector<RemoteCompletion>& out);
  void set_notify(std::function<void()> notify);
  RemoteUsage usage() const;

 private:
  // Everything below belongs to the thread, but for the members under a mutex and the atomics.

  // engine.cc: the loop, time, completions.
  void run();
  void take_inbox();
  void wait();
  std::int64_t due_ns() const;
  void watch_deadline(std::shared_ptr<Task> task);
  void expire(std::int64_t now_ns);
  void complete(Task& task, RemoteCompletion completion);
  void complete(Task& task, StatusCode code, std::string message);
  void deliver();
  void publish();

  // engine_requests.cc: what requests become.
  void start(RemoteLookup request);
  void start(RemoteRead request);
  void start(RemoteWrite request);
  void start(EraseRequest request);
  void start(const RemoteEraseSpace& request);
  bool begin(const std::shared_ptr<Task>& task, Ticket ticket, std::int64_t deadline_ns);
  void ask(const std::shared_ptr<LookupTask>& lookup, const std::vector<std::uint32_t>& indexes,
           unsigned losses);
  void unlink(const BlockKey& space, const std::vector<BlockKey>& keys);
  // engine_erase.cc: a space's names are listed at each server, and deleted, some at a time.
  void begin_pass(const std::shared_ptr<EraseTask>& erase);
  void scan(Server& server, std::shared_ptr<EraseTask> erase, std::string cursor);
  void scanned(Server& server, Command& command, const Reply& reply);
  void unlinked(Server& server, Command& command);
  void erase_further(Server& server, const Command& command);
  void render(Command& command) const;
  void answer(LookupTask& lookup, std::uint32_t index, LookupTask::Answer answer);
  void end_write(const WriteTask& write);
  using Counter = std::atomic<std::uint64_t> Counters::*;
  void fail(Command& command, const Status& why, Counter counter = &Counters::failed);
  void fail_key(Command& command, std::uint32_t index, const Status& why, Counter counter);

  // engine_replies.cc: what servers say.
  void replied(Server& server, Command& command, Reply reply) override;
  void received(Server& server, Command& command, Result<std::uint64_t> outcome) override;
  void spoiled(Command& command) override;
  void lost(Server& server, std::unique_ptr<Command> command, const Status& why) override;
  void breaker_opened(Server& server, const std::string& why, bool anew) override;
  void breaker_closed(Server& server) override;
  std::unique_ptr<Command> make_probe(const Server& server) override;
  void failed_reply(Server& server, Command& command, const std::string& text);
  void refused_write(Server& server, Command& command, StatusCode code, const std::string& text);
  void redirect(Server& server, Command& command, const std::string& text, bool asking);
  void discard_corrupt(const RemoteRead& request, const std::string& why);
  // `anew`: it begins now; else it goes on, and still for this reason.
  void note_failure(const std::string& why, bool anew);

  // engine_routing.cc: which server a key is at.
  void resolve(const RedisEndpoint& endpoint) override;
  Server& server_at(const RedisEndpoint& endpoint);
  void route(std::unique_ptr<Command> command);
  void send_to(Server& server, std::unique_ptr<Command> command);
  const RedisEndpoint* master_of(const SpaceNames& names, const BlockKey& key) const;
  const RedisEndpoint* master_of(const Command& command) const;
  void refresh_map(std::int64_t now_ns);
  std::unique_ptr<Command> ask_for_map() const;
  void adopt_map(Server& server, const Reply& reply);
  void drop_retired();

  Environment environment_;
  const std::shared_ptr<Inbox> inbox_;
  const UniqueFd epoll_;
  const KeyNames names_;
  bool stopping_ = false;
  std::unordered_map<BlockKey, SpaceDescriptor> spaces_;
  NegativeCache negative_;

  std::size_t outstanding_ = 0;  // tasks that are not done
  struct Later {
    bool operator()(const std::shared_ptr<Task>& left, const std::shared_ptr<Task>& right) const {
      return left->deadline_ns > right->deadline_ns;
    }
  };
  std::priority_queue<std::shared_ptr<Task>, std::vector<std::shared_ptr<Task>>, Later> deadlines_;
  // Keys that are being written, and whether they are to be erased afterwards.
  std::unordered_map<BlockKey, bool> writing_;
  std::vector<RemoteCompletion> completed_;
  bool use_del_ = false;  // a server does not know UNLINK

  ClusterMap map_;
  bool map_known_ = false, map_wanted_ = false, map_asked_ = false;
  std::int64_t map_at_ns_ = 0;              // not asked for before
  std::int64_t map_stale_ns_ = no_time_ns;  // asked for then in any case
  std::minstd_rand random_{std::random_device{}()};
  std::size_t map_turn_ = 0;
  // standalone: a slot that the server says is elsewhere, for it is part of a cluster.
  std::optional<std::uint16_t> foreign_slot_;
  std::map<RedisEndpoint, std::unique_ptr<Server>> servers_;
  std::deque<std::unique_ptr<Command>> homeless_;  // until the first map comes

  std::atomic<bool> available_ = true;
  std::atomic<Breaker> breaker_ = Breaker::closed;
  mutable std::mutex outbox_mutex_;
  std::vector<RemoteCompletion> outbox_;
  std::function<void()> notify_;
  std::string last_failure_;
  std::int64_t failed_unix_ms_ = 0;

  std::thread thread_;
};

}  // namespace terrace::storage::redis
