#include "storage/redis/server.h"

#include <algorithm>
#include <utility>

#include "storage/redis/resolver.h"

namespace terrace::storage::redis {

namespace {

constexpr std::int64_t first_reconnect_ns = 10 * ns_a_ms;
// Connections that are lost within so short a time are lost for one reason: one failure.
constexpr std::int64_t one_loss_ns = 2 * ns_a_ms;

}  // namespace

Server::Server(Environment& environment, const RedisEndpoint& endpoint, Owner& owner,
               std::uint64_t seed)
    : environment_(environment),
      endpoint_(endpoint),
      owner_(owner),
      breaker_({environment.options.breaker_failures, environment.options.breaker_open_ms * ns_a_ms,
                environment.options.breaker_max_open_ms * ns_a_ms},
               seed),
      reconnect_(first_reconnect_ns, environment.options.breaker_max_open_ms * ns_a_ms, ~seed) {
  if (const auto address = parse_address(endpoint)) addresses_ = {*address};
  Connection::Owner& connection_owner = *this;
  for (unsigned i = 0; i <= environment.options.connections_per_server; ++i)
    connections_.push_back(std::make_unique<Connection>(environment, endpoint, connection_owner));
}

bool Server::idle() const {
  return small_queue_.empty() && read_queue_.empty() && write_queue_.empty() &&
         std::ranges::all_of(connections_, [](const auto& one) { return one->commands() == 0; });
}

bool Server::has_more() const {
  return hang_up_ || dirty_ ||
         std::ranges::any_of(connections_, [](const auto& one) { return one->has_more(); });
}

void Server::enqueue(std::unique_ptr<Command> command) {
  auto& queue = command->read ? read_queue_ : command->write ? write_queue_ : small_queue_;
  queue.push_back(std::move(command));
  dirty_ = true;
}

void Server::run(std::int64_t now_ns) {
  for (const auto& connection : connections_) {
    if (connection->has_more()) connection->on_event();
    connection->check_time(now_ns);
  }
  if (std::exchange(hang_up_, false))
    for (const auto& connection : connections_)
      connection->close(Status(StatusCode::unavailable, "the server is not asked any more"), false);
  if (breaker_.begin_probe(now_ns)) {
    probing_ = false;
    connect_at_ns_ = now_ns;
  }
  connect_due(now_ns);
  if (breaker_.state() == Breaker::half_open && !probing_ && small().is_ready()) {
    probing_ = true;
    small().send(owner_.make_probe(*this));
  }
  dirty_ = false;
  if (breaker_.closed()) dispatch();
  for (const auto& connection : connections_) connection->flush();
}

std::int64_t Server::due_ns() const {
  std::int64_t due = no_time_ns;
  for (const auto& connection : connections_) due = std::min(due, connection->due_ns());
  if (breaker_.state() == Breaker::open) return std::min(due, breaker_.probe_at_ns());
  if (resolving_) return due;
  const bool all_may_connect = small().is_ready() && breaker_.closed();
  if (small().is_closed() ||
      (all_may_connect &&
       std::ranges::any_of(connections_, [](const auto& one) { return one->is_closed(); })))
    due = std::min(due, connect_at_ns_);
  return due;
}

void Server::connect_due(std::int64_t now_ns) {
  if (breaker_.state() == Breaker::open || now_ns < connect_at_ns_) return;
  if (small().is_closed()) return connect(small());
  // Where one gets through, the others may try.
  if (!small().is_ready() || !breaker_.closed()) return;
  for (const auto& connection : connections_)
    if (connection->is_closed()) connect(*connection);
}

void Server::connect(Connection& connection) {
  if (!addresses_.empty()) return connection.open(addresses_[address_]);
  if (std::exchange(resolving_, true)) return;
  owner_.resolve(endpoint_);
}

void Server::resolved(Result<Addresses> addresses) {
  resolving_ = false;
  address_ = 0;
  if (addresses)
    addresses_ = std::move(*addresses);
  else
    fail(addresses.error().message());
}

// A name may stand for several, and for others than it did.
void Server::try_next_address() {
  if (++address_ < addresses_.size()) return;
  address_ = 0;
  if (!parse_address(endpoint_)) addresses_.clear();
}

void Server::dispatch() {
  if (small().is_ready())
    for (; !small_queue_.empty(); small_queue_.pop_front())
      if (!small_queue_.front()->given_up()) small().send(std::move(small_queue_.front()));
  dispatch_values(read_queue_, false);
  dispatch_values(write_queue_, true);
}

void Server::dispatch_values(std::deque<std::unique_ptr<Command>>& queue, bool for_writes) {
  const std::uint64_t window_bytes = for_writes ? write_window_bytes : read_window_bytes;
  while (!queue.empty()) {
    if (queue.front()->given_up()) {
      queue.pop_front();
      continue;
    }
    Connection* const least = least_busy(for_writes);
    if (least == nullptr) return;
    const std::uint64_t bytes = queue.front()->value_bytes;
    const auto fits = [bytes](std::uint64_t under_way, std::uint64_t most) {
      return under_way == 0 || under_way + bytes <= most;
    };
    if (!fits(least->value_bytes(), window_bytes) ||
        !fits(environment_.counters.in_flight_bytes.load(),
              environment_.options.max_in_flight_bytes))
      return;
    least->send(std::move(queue.front()));
    queue.pop_front();
  }
}

Connection* Server::least_busy(bool for_writes) const {
  const bool shared = environment_.options.connections_per_server == 1;
  Connection* least = nullptr;
  for (std::size_t i = 1; i < connections_.size(); ++i) {
    Connection* const one = connections_[i].get();
    const bool is_for_writes = i + 1 == connections_.size();
    if (!one->is_ready() || (!shared && for_writes != is_for_writes)) continue;
    if (least == nullptr || one->value_bytes() < least->value_bytes()) least = one;
  }
  return least;
}

void Server::ready(Connection& connection) {
  reconnect_.reset();
  if (&connection != &small()) return;
  if (std::exchange(ever_ready_, true)) environment_.counters.reconnects.fetch_add(1);
}

void Server::answered() {
  // What comes from a connection that is about to be closed says nothing of what is to come.
  if (hang_up_ || !breaker_.success()) return;
  known_open_ = false;
  owner_.breaker_closed(*this);
}

void Server::replied(Command& command, Reply reply) {
  const bool is_half = command.kind == Command::Kind::probe && command.answered < command.replies;
  // First, for it may be an answer that says that the server is of no use.
  owner_.replied(*this, command, std::move(reply));
  if (!is_half) answered();
}

void Server::received(Command& command, Result<std::uint64_t> outcome) {
  answered();
  owner_.received(*this, command, std::move(outcome));
}

void Server::closed(Connection& connection, const Status& why, bool at_fault,
                    std::deque<std::unique_ptr<Command>> commands, std::size_t sent) {
  if (at_fault) {
    if (&connection == &small()) try_next_address();
    const std::int64_t now_ns = environment_.now_ns();
    connect_at_ns_ = std::max(connect_at_ns_, now_ns + first_reconnect_ns);
    if (now_ns >= lost_at_ns_ + one_loss_ns || breaker_.state() == Breaker::half_open) {
      lost_at_ns_ = now_ns;
      connect_at_ns_ = std::max(connect_at_ns_, now_ns + reconnect_.next());
      fail(why.message());
    }
  } else if (&connection == &small() && breaker_.state() == Breaker::half_open) {
    // The probe went with it.
    probing_ = false;
  }
  for (std::size_t i = 0; i < commands.size(); ++i) {
    if (i < sent) ++commands[i]->losses;
    owner_.lost(*this, std::move(commands[i]), why);
  }
}

void Server::fail(const std::string& why) {
  if (breaker_.failure(environment_.now_ns())) opened(why);
}

void Server::not_ready(const std::string& why) {
  if (breaker_.trip(environment_.now_ns())) opened(why);
}

void Server::opened(const std::string& why) {
  hang_up_ = true;
  owner_.breaker_opened(*this, why, !std::exchange(known_open_, true));
  for (auto* const queue : {&small_queue_, &read_queue_, &write_queue_}) {
    auto commands = std::exchange(*queue, {});
    for (auto& command : commands)
      owner_.lost(*this, std::move(command), Status(StatusCode::unavailable, why));
  }
}

bool Server::keeps_waiting(const Task& task, std::int64_t now_ns) const {
  const std::int64_t patience_ns = (now_ns - task.begun_ns) / 2;
  bool busy = false, flows = false;
  for (const auto& connection : connections_) {
    if (connection->commands() == 0) continue;
    busy = true;
    if (connection->silent_ns(now_ns) < patience_ns)
      flows = true;
    else if (connection->has(task))
      return true;
  }
  // It may also wait for bytes that are under way at another server.
  return (!small().is_ready() || (busy && !flows)) && has_queued(task);
}

bool Server::has_queued(const Task& task) const {
  for (const auto* const queue : {&small_queue_, &read_queue_, &write_queue_})
    for (const auto& command : *queue)
      if (command->task() == &task) return true;
  return false;
}

void Server::pause_writes(Status why) {
  writes_paused_until_ns_ = environment_.now_ns() + environment_.options.write_pause_ms * ns_a_ms;
  writes_paused_why_ = std::move(why);
}

Status Server::writes_paused(std::int64_t now_ns) const {
  return now_ns < writes_paused_until_ns_ ? writes_paused_why_ : Status();
}

}  // namespace terrace::storage::redis
