// Which server a key is at: the only one, or what the map of the cluster says.
#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include "storage/redis/engine.h"
#include "storage/redis/resolver.h"
#include "storage/redis/resp.h"

namespace terrace::storage::redis {

namespace {

// Names to try until one lies in a slot of a given server.
constexpr unsigned max_probe_names = 100'000;

}  // namespace

void Engine::resolve(const RedisEndpoint& endpoint) {
  redis::resolve(endpoint, [endpoint, to = std::weak_ptr(inbox_)](Result<Addresses> addresses) {
    if (const auto inbox = to.lock()) inbox->push(Resolved{endpoint, std::move(addresses)});
  });
}

Server& Engine::server_at(const RedisEndpoint& endpoint) {
  std::unique_ptr<Server>& server = servers_[endpoint];
  Server::Owner& owner = *this;
  if (!server)
    server = std::make_unique<Server>(environment_, endpoint, owner, std::random_device{}());
  return *server;
}

const RedisEndpoint* Engine::master_of(const SpaceNames& names, const BlockKey& key) const {
  // Where there is only one server no slot needs computing.
  if (environment_.options.mode == RedisMode::standalone) return &map_.masters().front();
  return map_.master_of(slot_of(names.of(key)));
}

const RedisEndpoint* Engine::master_of(const Command& command) const {
  if (command.lookup)
    return master_of(names_.in(command.lookup->space), command.lookup->keys[command.indexes[0]]);
  if (command.read)
    return master_of(names_.in(command.read->request.space), command.read->request.key);
  if (command.write)
    return master_of(names_.in(command.write->request.space), command.write->request.key);
  return master_of(names_.in(command.space), command.unlink[0]);
}

void Engine::route(std::unique_ptr<Command> command) {
  if (!map_known_) {
    // Nobody waits for an unlink, and nothing says how many there will be.
    if (command->kind == Command::Kind::unlink) return;
    homeless_.push_back(std::move(command));
    return;
  }
  command->asking = false;
  if (const RedisEndpoint* const master = master_of(*command))
    return send_to(server_at(*master), std::move(command));
  map_wanted_ = true;
  fail(*command, Status(StatusCode::unavailable, "no server of the cluster has the key's slot"));
}

void Engine::send_to(Server& server, std::unique_ptr<Command> command) {
  if (!server.asked())
    return fail(*command,
                Status(StatusCode::unavailable,
                       to_string(server.endpoint()) + " is not asked, because it failed"),
                &Counters::not_asked);
  if (command->kind == Command::Kind::set)
    if (const Status paused = server.writes_paused(environment_.now_ns()); !paused.ok())
      return fail(*command, paused, &Counters::not_asked);
  render(*command);
  server.enqueue(std::move(command));
}

std::unique_ptr<Command> Engine::make_probe(const Server& server) {
  // Without a map no server is of use, however well it answers.
  if (!map_known_) return ask_for_map();
  auto probe = std::make_unique<Command>();
  // What was refused is what must work again.
  const auto is_to_answer = [&](std::uint16_t slot) {
    if (foreign_slot_) return slot == *foreign_slot_;
    const RedisEndpoint* const master = map_.master_of(slot);
    return master != nullptr && *master == server.endpoint();
  };
  for (unsigned number = 0; number < max_probe_names; ++number) {
    const std::string name = names_.probe(number);
    if (!is_to_answer(slot_of(name))) continue;
    // A user may be allowed the one and not the other; both are needed.
    for (const char* const question : {"EXISTS", "GET"})
      append_command(probe->text, std::array<std::string_view, 2>{question, name});
    probe->replies = 2;
    return probe;
  }
  // It has no slot: a node that only knows the map.
  append_command(probe->text, std::array<std::string_view, 1>{"PING"});
  return probe;
}

void Engine::refresh_map(std::int64_t now_ns) {
  if (environment_.options.mode != RedisMode::cluster) return;
  // While a master is away, one of its replicas may be about to take its place.
  const auto is_asked = [](const auto& entry) { return entry.second->asked(); };
  if (!std::ranges::all_of(servers_, is_asked) || now_ns >= map_stale_ns_) map_wanted_ = true;
  if (!map_known_ && std::ranges::none_of(servers_, is_asked))
    for (auto& command : std::exchange(homeless_, {}))
      fail(*command, Status(StatusCode::unavailable, "no node of the cluster answers"),
           &Counters::not_asked);
  if (!map_wanted_ || map_asked_ || now_ns < map_at_ns_) return;
  map_at_ns_ = now_ns + map_interval_ns;
  if (std::ranges::none_of(servers_, is_asked)) {
    // Anybody may know where the cluster has gone.
    for (const RedisEndpoint& endpoint : environment_.options.endpoints) server_at(endpoint);
    for (const RedisEndpoint& endpoint : map_.nodes()) server_at(endpoint);
    return;
  }
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    Server& server =
        *std::next(servers_.begin(), static_cast<std::ptrdiff_t>(map_turn_++ % servers_.size()))
             ->second;
    if (!server.asked()) continue;
    map_asked_ = true;
    return server.enqueue(ask_for_map());
  }
}

std::unique_ptr<Command> Engine::ask_for_map() const {
  auto command = std::make_unique<Command>();
  command->kind = Command::Kind::slots;
  append_command(command->text, std::array<std::string_view, 2>{"CLUSTER", "SLOTS"});
  return command;
}

void Engine::adopt_map(Server& server, const Reply& reply) {
  map_asked_ = false;
  auto map = ClusterMap::parse(reply, server.endpoint());
  if (!map) return server.not_ready(map.error().message());
  // A node that has just started, or lost the others, may know of no slots.
  if (map->masters().empty()) return server.not_ready("the cluster has no slots");
  map_ = std::move(*map);
  map_known_ = true;
  map_wanted_ = false;
  const std::int64_t most_ns = environment_.options.map_refresh_ms * ns_a_ms;
  map_stale_ns_ = environment_.now_ns() +
                  std::uniform_int_distribution<std::int64_t>(most_ns / 2, most_ns)(random_);
  server.answered();  // it may be asked for what follows
  for (const RedisEndpoint& master : map_.masters()) server_at(master);
  for (auto& command : std::exchange(homeless_, {}))
    if (!command->given_up()) {
      if (command->lookup)
        ask(command->lookup, command->indexes, command->losses);
      else
        route(std::move(command));
    }
}

// Servers that have no slots any more, once nothing is under way there. While no master answers the
// map may be of the past, and anybody may know the new one.
void Engine::drop_retired() {
  if (environment_.options.mode != RedisMode::cluster || !map_known_) return;
  const auto is_asked = [this](const RedisEndpoint& master) {
    const auto at = servers_.find(master);
    return at != servers_.end() && at->second->asked();
  };
  if (std::ranges::none_of(map_.masters(), is_asked)) return;
  std::erase_if(servers_, [this](const auto& entry) {
    return std::ranges::find(map_.masters(), entry.first) == map_.masters().end() &&
           entry.second->idle();
  });
}

}  // namespace terrace::storage::redis
