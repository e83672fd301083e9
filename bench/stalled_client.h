// A client that sends and does not read, again and again: it connects, sends calls with large
// answers until the daemon cuts the connection, and pauses.
#pragma once

#include <kj/common.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

namespace terrace::bench {

class StalledClient {
 public:
  explicit StalledClient(const std::string& socket_path);
  // Takes its connection down; waits for its thread.
  ~StalledClient();
  StalledClient(const StalledClient&) = delete;
  StalledClient& operator=(const StalledClient&) = delete;

  // How many bytes of calls it has sent, and how often it was cut.
  std::uint64_t sent_bytes() const { return sent_bytes_; }
  std::uint64_t cuts() const { return cuts_; }

 private:
  // Whether all of it went out, and the daemon still listens.
  bool send(std::stop_token stop, int fd, kj::ArrayPtr<const kj::byte> bytes);
  void run(std::stop_token stop, const std::string& socket_path);

  std::atomic<std::uint64_t> sent_bytes_{0}, cuts_{0};
  std::jthread thread_;
};

}  // namespace terrace::bench
