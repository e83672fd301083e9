// Stands between a client and a server on this machine and does to their connections what networks
// do: holds them up, cuts them, delays them, damages what they carry.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <list>
#include <mutex>
#include <thread>
#include <vector>

#include "core/unique_fd.h"

namespace terrace::test_support {

class TcpProxy {
 public:
  explicit TcpProxy(std::uint16_t target_port);
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;

  std::uint16_t port() const { return port_; }

  // All of these may be called at any time; they hold for the connections there are and for later
  // ones.

  // Nothing is passed on, either way, while this is set. Connections are still accepted.
  void stall(bool on);
  // The same once so many more bytes from the server were passed on.
  void stall_after(std::uint64_t bytes);
  // After so many more bytes from the server every connection is closed, once.
  void cut_after(std::uint64_t bytes);
  // So many more bytes from the server on, one bit is flipped, once.
  void corrupt_after(std::uint64_t bytes);
  // What the server says arrives so much later.
  void delay_ms(std::int64_t ms);
  // The server's bytes, of all connections together, are passed on at this rate. 0: as they come.
  void throttle(std::int64_t bytes_per_ms);
  // Whether what was asked for after so many bytes has been done.
  bool done() const;

 private:
  static constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();
  struct Chunk {
    std::vector<char> bytes;
    std::size_t written = 0;
    std::int64_t due_ms = 0;
  };
  struct Way {
    int from = -1, to = -1;
    bool from_server = false, ended = false;
    std::deque<Chunk> chunks;
  };
  struct Pair {
    UniqueFd client, server;
    Way ways[2];
    bool closed = false;
  };

  void run();
  void accept();
  void receive(Pair& pair, Way& way);
  void pass_on(Pair& pair, Way& way, std::int64_t now_ms);
  void wake() const;

  const std::uint16_t target_port_;
  std::uint16_t port_ = 0;
  UniqueFd listener_, wake_;
  std::list<Pair> pairs_;

  mutable std::mutex mutex_;
  bool stopping_ = false, stalled_ = false;
  std::uint64_t cut_in_bytes_ = never, corrupt_in_bytes_ = never, stall_in_bytes_ = never;
  std::int64_t delay_ms_ = 0, bytes_per_ms_ = 0;
  double next_ms_ = 0;  // when the rate allows the next byte
  std::thread thread_;
};

}  // namespace terrace::test_support
