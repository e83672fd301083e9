// Real Redis servers on loopback, each in a directory of its own, ended with their scope.
#pragma once

#include <csignal>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/redis_client.h"
#include "tests/support/temp_dir.h"

namespace terrace::test_support {

// A port of this machine that nobody listens on at the moment.
std::uint16_t free_port();

class RedisServer {
 public:
  // Whether this machine has the program.
  static bool installed();

  // Starts a server without persistence, with these options in addition ("--name", "value", ...),
  // and waits until it answers, if only with an error. `port` 0: a free one. Ends the process of
  // the test if no server comes up.
  explicit RedisServer(std::vector<std::string> arguments = {}, std::uint16_t port = 0);

  std::uint16_t port() const { return port_; }
  const std::string& directory() const { return directory_.path(); }
  RedisClient client() const { return RedisClient(port_); }
  // One command on a connection of its own.
  RedisReply command(const std::vector<std::string>& arguments) const;
  // A number out of what a command says, such as INFO; nothing if it is not there.
  std::optional<std::int64_t> number(const std::vector<std::string>& arguments,
                                     const std::string& name) const;

  // Kills it; what it had not saved is gone.
  void kill() { process_.reset(); }
  // Starts it on the same port and directory, with other options if there are any.
  void start();
  void start(std::vector<std::string> arguments);
  // SIGSTOP and SIGCONT.
  void freeze() const { process_->signal(SIGSTOP); }
  void thaw() const { process_->signal(SIGCONT); }

 private:
  bool try_start();

  TempDir directory_;
  std::vector<std::string> arguments_;
  std::uint16_t port_ = 0;
  std::unique_ptr<Process> process_;
};

// A cluster of three masters, each with a third of the slots and one replica: the master at index i
// has the replica at i + 3.
class RedisCluster {
 public:
  static constexpr std::size_t masters = 3;

  RedisCluster();

  RedisServer& node(std::size_t index) { return *nodes_[index]; }
  // The node's name within the cluster.
  std::string id(std::size_t index) { return node(index).command({"CLUSTER", "MYID"}).text; }
  // Whether every node that runs finds the cluster well.
  bool well();
  // Moves a slot from one master to another, its keys too, until all masters know; `between` is
  // called in the middle, when the slot is on its way and half of its keys are there.
  template <typename Between>
  void move_slot(std::uint16_t slot, std::size_t from, std::size_t to, Between between) {
    begin_move(slot, from, to);
    between();
    end_move(slot, from, to);
  }

 private:
  void begin_move(std::uint16_t slot, std::size_t from, std::size_t to);
  void end_move(std::uint16_t slot, std::size_t from, std::size_t to);
  // The port of a slot's master and the cluster's epoch, as a node has it.
  std::uint16_t owner_of(std::uint16_t slot, std::size_t asked);
  std::int64_t epoch(std::size_t asked);
  void move_keys(std::uint16_t slot, std::size_t from, std::size_t to, std::size_t count);

  std::vector<std::unique_ptr<RedisServer>> nodes_;
};

}  // namespace terrace::test_support
