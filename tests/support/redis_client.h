// A connection to a Redis for tests: one command after the other, each waited for. Shares nothing
// with the code under test.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/unique_fd.h"

namespace terrace::test_support {

struct RedisReply {
  char type = 0;  // as the protocol has it: + - : $ *; 0: the connection is broken
  std::string text;
  bool nil = false;
  std::vector<RedisReply> elements;

  bool ok() const { return type != 0 && type != '-'; }
  std::int64_t integer() const { return std::stoll(text); }
};

class RedisClient {
 public:
  // Tries to connect to a port of this machine.
  explicit RedisClient(std::uint16_t port);

  bool connected() const { return static_cast<bool>(socket_); }
  // Sends a command and reads its answer, for at most ten seconds.
  RedisReply command(const std::vector<std::string>& arguments);

 private:
  bool fill();
  bool read_line(std::string& line);
  RedisReply read_reply();
  RedisReply broken();

  UniqueFd socket_;
  std::string buffer_;
};

}  // namespace terrace::test_support
