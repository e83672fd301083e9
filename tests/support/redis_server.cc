#include "tests/support/redis_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <utility>

namespace terrace::test_support {

namespace {

constexpr const char* program = "/usr/bin/redis-server";
constexpr int max_starts = 20;
// Below the range that the system takes ports for outgoing connections from.
constexpr std::uint16_t first_port = 20'000, last_port = 32'000;

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

bool is_free(std::uint16_t port) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

void must(const RedisReply& reply) {
  if (!reply.ok()) give_up("the cluster says: " + reply.text);
}

}  // namespace

std::uint16_t free_port() {
  static std::mt19937 random(std::random_device{}());
  std::uniform_int_distribution<unsigned> ports(first_port, last_port);
  for (;;)
    if (const auto port = static_cast<std::uint16_t>(ports(random)); is_free(port)) return port;
}

bool RedisServer::installed() { return ::access(program, X_OK) == 0; }

RedisServer::RedisServer(std::vector<std::string> arguments, std::uint16_t port)
    : arguments_(std::move(arguments)), port_(port) {
  // Somebody else may take the port in between.
  for (int i = 0; i < max_starts; ++i) {
    if (port == 0) port_ = free_port();
    if (try_start()) return;
  }
  give_up(std::string(program) + " does not come up: " + process_->output());
}

void RedisServer::start() {
  for (int i = 0; i < max_starts; ++i)
    if (try_start()) return;
  give_up(std::string(program) + " does not come up again: " + process_->output());
}

void RedisServer::start(std::vector<std::string> arguments) {
  arguments_ = std::move(arguments);
  start();
}

bool RedisServer::try_start() {
  std::vector<std::string> arguments = {program,
                                        "--port",
                                        std::to_string(port_),
                                        "--bind",
                                        "127.0.0.1",
                                        "--dir",
                                        directory(),
                                        "--save",
                                        "",
                                        "--appendonly",
                                        "no",
                                        "--daemonize",
                                        "no",
                                        "--enable-debug-command",
                                        "local",
                                        "--repl-diskless-sync-delay",
                                        "0"};
  arguments.insert(arguments.end(), arguments_.begin(), arguments_.end());
  process_ = std::make_unique<Process>(arguments);
  bool answers = false;
  wait_until(
      [&] {
        answers = client().command({"PING"}).type != 0;
        return answers || !process_->running();
      },
      std::chrono::seconds(20));
  // Another server may answer on a port that this one could not have.
  return answers && process_->running();
}

RedisReply RedisServer::command(const std::vector<std::string>& arguments) const {
  RedisClient connection = client();
  return connection.connected() ? connection.command(arguments) : RedisReply{};
}

std::optional<std::int64_t> RedisServer::number(const std::vector<std::string>& arguments,
                                                const std::string& name) const {
  const std::string text = "\n" + command(arguments).text;
  const std::size_t at = text.find("\n" + name + ":");
  if (at == std::string::npos) return std::nullopt;
  return std::strtoll(text.c_str() + at + name.size() + 2, nullptr, 10);
}

RedisCluster::RedisCluster() {
  constexpr unsigned slots = 16384;
  for (std::size_t i = 0; i < 2 * masters; ++i)
    nodes_.push_back(std::make_unique<RedisServer>(std::vector<std::string>{
        "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout",
        "1000", "--cluster-port", std::to_string(free_port()), "--cluster-replica-validity-factor",
        "0"}));
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    must(node(i).command({"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1)}));
  for (std::size_t i = 0; i < masters; ++i)
    must(node(i).command({"CLUSTER", "ADDSLOTSRANGE", std::to_string(slots * i / masters),
                          std::to_string(slots * (i + 1) / masters - 1)}));
  for (std::size_t i = 1; i < nodes_.size(); ++i)
    must(node(0).command({"CLUSTER", "MEET", "127.0.0.1", std::to_string(node(i).port()),
                          node(i).command({"CONFIG", "GET", "cluster-port"}).elements[1].text}));
  if (!wait_until([this] { return well(); })) give_up("the cluster does not come up");
  for (std::size_t i = 0; i < masters; ++i)
    must(node(masters + i).command({"CLUSTER", "REPLICATE", id(i)}));
  const bool replicating = wait_until([this] {
    for (std::size_t i = 0; i < masters; ++i)
      if (node(masters + i).command({"INFO", "replication"}).text.find("master_link_status:up") ==
          std::string::npos)
        return false;
    return well();
  });
  if (!replicating) give_up("the replicas do not come up");
}

bool RedisCluster::well() {
  for (const auto& one : nodes_) {
    RedisClient connection = one->client();
    if (!connection.connected()) continue;
    const std::string info = connection.command({"CLUSTER", "INFO"}).text;
    if (info.find("cluster_state:ok") == std::string::npos ||
        info.find("cluster_known_nodes:6") == std::string::npos)
      return false;
  }
  return true;
}

void RedisCluster::begin_move(std::uint16_t slot, std::size_t from, std::size_t to) {
  must(node(to).command({"CLUSTER", "SETSLOT", std::to_string(slot), "IMPORTING", id(from)}));
  must(node(from).command({"CLUSTER", "SETSLOT", std::to_string(slot), "MIGRATING", id(to)}));
  const auto keys = node(from).command({"CLUSTER", "COUNTKEYSINSLOT", std::to_string(slot)});
  move_keys(slot, from, to, static_cast<std::size_t>(keys.integer() + 1) / 2);
}

void RedisCluster::end_move(std::uint16_t slot, std::size_t from, std::size_t to) {
  const auto keys = node(from).command({"CLUSTER", "COUNTKEYSINSLOT", std::to_string(slot)});
  move_keys(slot, from, to, static_cast<std::size_t>(keys.integer()));
  const std::string owner = id(to);
  for (const std::size_t i : {to, from})
    must(node(i).command({"CLUSTER", "SETSLOT", std::to_string(slot), "NODE", owner}));
  // A node that has not heard of the last move may lose what it is given with the next.
  const bool agreed = wait_until([&] {
    for (std::size_t i = 0; i < masters; ++i)
      if (owner_of(slot, i) != node(to).port() || epoch(i) != epoch(to)) return false;
    return true;
  });
  if (!agreed) give_up("the cluster does not agree on a slot that was moved");
}

std::uint16_t RedisCluster::owner_of(std::uint16_t slot, std::size_t asked) {
  for (const RedisReply& range : node(asked).command({"CLUSTER", "SLOTS"}).elements)
    if (range.elements[0].integer() <= slot && slot <= range.elements[1].integer())
      return static_cast<std::uint16_t>(range.elements[2].elements[1].integer());
  return 0;
}

std::int64_t RedisCluster::epoch(std::size_t asked) {
  return node(asked).number({"CLUSTER", "INFO"}, "cluster_current_epoch").value_or(-1);
}

void RedisCluster::move_keys(std::uint16_t slot, std::size_t from, std::size_t to,
                             std::size_t count) {
  const auto keys =
      node(from).command({"CLUSTER", "GETKEYSINSLOT", std::to_string(slot), std::to_string(count)});
  for (const RedisReply& key : keys.elements)
    node(from).command(
        {"MIGRATE", "127.0.0.1", std::to_string(node(to).port()), key.text, "0", "5000"});
}

}  // namespace terrace::test_support
