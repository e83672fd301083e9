#include "storage/redis/engine.h"

#include <signal.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <utility>

namespace terrace::storage::redis {

namespace {

constexpr std::size_t max_events = 64;

// Signals are for the main thread; a peer that is gone is an error and no SIGPIPE, also where
// OpenSSL writes.
void block_signals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

}  // namespace

Engine::Engine(const RedisOptions& options, std::shared_ptr<const Clock> clock,
               std::unique_ptr<TlsContext> tls, UniqueFd epoll, std::shared_ptr<Inbox> inbox)
    : environment_{options, std::move(clock), std::move(tls), epoll.get(), {}},
      inbox_(std::move(inbox)),
      epoll_(std::move(epoll)),
      names_(options.key_prefix),
      negative_(options.negative_entries, options.negative_ttl_ms * ns_a_ms) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;  // the inbox; all others are connections
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, inbox_->fd(), &event);
  thread_ = std::thread([this] { run(); });
}

Engine::~Engine() {
  push(Stop{});
  thread_.join();
}

void Engine::take_completions(std::vector<RemoteCompletion>& out) {
  const std::lock_guard lock(outbox_mutex_);
  std::move(outbox_.begin(), outbox_.end(), std::back_inserter(out));
  outbox_.clear();
}

void Engine::set_notify(std::function<void()> notify) {
  const std::lock_guard lock(outbox_mutex_);
  notify_ = std::move(notify);
}

RemoteUsage Engine::usage() const {
  const Counters& counters = environment_.counters;
  RemoteUsage usage;
  usage.breaker = breaker_.load();
  usage.connections = counters.connections.load();
  usage.in_flight_bytes = counters.in_flight_bytes.load();
  usage.found = counters.found.load();
  usage.absent = counters.absent.load();
  usage.written = counters.written.load();
  usage.corrupt = counters.corrupt.load();
  usage.refused = counters.refused.load();
  usage.timed_out = counters.timed_out.load();
  usage.failed = counters.failed.load();
  usage.not_asked = counters.not_asked.load();
  usage.rejected = counters.rejected.load();
  usage.reconnects = counters.reconnects.load();
  usage.redirections = counters.redirections.load();
  const std::lock_guard lock(outbox_mutex_);
  usage.last_failure = last_failure_;
  usage.failed_unix_ms = failed_unix_ms_;
  return usage;
}

void Engine::run() {
  block_signals();
  for (const RedisEndpoint& endpoint : environment_.options.endpoints) server_at(endpoint);
  if (environment_.options.mode == RedisMode::standalone) {
    map_ = ClusterMap::of_one(environment_.options.endpoints.front());
    map_known_ = true;
  } else {
    map_wanted_ = true;
  }
  for (;;) {
    take_inbox();
    if (stopping_) return;
    expire(environment_.now_ns());
    const std::int64_t now_ns = environment_.now_ns();
    refresh_map(now_ns);
    for (const auto& [endpoint, server] : servers_) server->run(now_ns);
    drop_retired();
    publish();
    deliver();
    wait();
  }
}

void Engine::take_inbox() {
  for (Message& message : inbox_->take()) {
    if (auto* lookup = std::get_if<RemoteLookup>(&message)) {
      start(std::move(*lookup));
    } else if (auto* read = std::get_if<RemoteRead>(&message)) {
      start(std::move(*read));
    } else if (auto* write = std::get_if<RemoteWrite>(&message)) {
      start(std::move(*write));
    } else if (auto* erase = std::get_if<EraseRequest>(&message)) {
      start(std::move(*erase));
    } else if (auto* erase_space = std::get_if<RemoteEraseSpace>(&message)) {
      start(*erase_space);
    } else if (auto* space = std::get_if<SpaceDescriptor>(&message)) {
      if (!space->validate().ok()) continue;
      const BlockKey digest = space->digest();
      spaces_.insert_or_assign(digest, std::move(*space));
    } else if (auto* resolved = std::get_if<Resolved>(&message)) {
      if (const auto at = servers_.find(resolved->endpoint); at != servers_.end())
        at->second->resolved(std::move(resolved->addresses));
    } else if (std::holds_alternative<Stop>(message)) {
      stopping_ = true;
    }
  }
}

void Engine::wait() {
  const std::int64_t due = due_ns();
  std::int64_t left_ns =
      due == no_time_ns ? -1 : std::max<std::int64_t>(0, due - environment_.now_ns());
  for (const auto& [endpoint, server] : servers_)
    if (server->has_more()) left_ns = 0;
  std::array<epoll_event, max_events> events;
  const timespec timeout{left_ns / 1'000'000'000, left_ns % 1'000'000'000};
  int count = ::epoll_pwait2(epoll_.get(), events.data(), max_events,
                             left_ns < 0 ? nullptr : &timeout, nullptr);
  if (count < 0 && (errno == ENOSYS || errno == EPERM))  // before Linux 5.11, or in a container
    count = ::epoll_wait(epoll_.get(), events.data(), max_events,
                         left_ns < 0 ? -1 : static_cast<int>((left_ns + ns_a_ms - 1) / ns_a_ms));
  for (int i = 0; i < count; ++i)
    if (auto* const connection =
            static_cast<Connection*>(events[static_cast<std::size_t>(i)].data.ptr))
      connection->on_event();
}

std::int64_t Engine::due_ns() const {
  std::int64_t due = no_time_ns;
  if (!deadlines_.empty()) due = deadlines_.top()->deadline_ns;
  if (map_wanted_ && !map_asked_) due = std::min(due, map_at_ns_);
  if (!map_wanted_) due = std::min(due, map_stale_ns_);
  for (const auto& [endpoint, server] : servers_) due = std::min(due, server->due_ns());
  return due;
}

void Engine::watch_deadline(std::shared_ptr<Task> task) { deadlines_.push(std::move(task)); }

void Engine::expire(std::int64_t now_ns) {
  std::vector<Server*> late;
  while (!deadlines_.empty() &&
         (deadlines_.top()->done || deadlines_.top()->deadline_ns <= now_ns)) {
    const std::shared_ptr<Task> task = deadlines_.top();
    deadlines_.pop();
    if (task->done) continue;
    for (const auto& [endpoint, server] : servers_)
      if (std::ranges::find(late, server.get()) == late.end() &&
          server->keeps_waiting(*task, now_ns))
        late.push_back(server.get());
    environment_.counters.timed_out.fetch_add(1);
    complete(*task, StatusCode::unavailable, "no answer in time");
  }
  for (Server* const server : late) server->timed_out();
}

void Engine::complete(Task& task, RemoteCompletion completion) {
  if (std::exchange(task.done, true)) return;
  --outstanding_;
  completion.ticket = task.ticket;
  if (const auto* write = dynamic_cast<const WriteTask*>(&task)) end_write(*write);
  completed_.push_back(std::move(completion));
}

void Engine::complete(Task& task, StatusCode code, std::string message) {
  RemoteCompletion completion;
  completion.status = Status(code, std::move(message));
  completion.present = task.leading();
  complete(task, std::move(completion));
}

// Says how the store is. Before deliver(): who hears of a failure sees why.
void Engine::publish() {
  Breaker best = servers_.empty() ? Breaker::closed : Breaker::open;
  for (const auto& [endpoint, server] : servers_) {
    if (server->breaker() == Breaker::closed) best = Breaker::closed;
    if (server->breaker() == Breaker::half_open && best == Breaker::open) best = Breaker::half_open;
  }
  breaker_.store(best);
  available_.store(best == Breaker::closed, std::memory_order_relaxed);
}

void Engine::deliver() {
  if (completed_.empty()) return;
  std::function<void()> notify;
  {
    const std::lock_guard lock(outbox_mutex_);
    std::move(completed_.begin(), completed_.end(), std::back_inserter(outbox_));
    notify = notify_;
  }
  completed_.clear();
  if (notify) notify();
}

}  // namespace terrace::storage::redis
