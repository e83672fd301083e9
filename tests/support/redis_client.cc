#include "tests/support/redis_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>

namespace terrace::test_support {

namespace {

constexpr time_t timeout_s = 10;

}  // namespace

RedisClient::RedisClient(std::uint16_t port)
    : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const timeval timeout{timeout_s, 0};
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    socket_.reset();
}

RedisReply RedisClient::command(const std::vector<std::string>& arguments) {
  std::string text = "*" + std::to_string(arguments.size()) + "\r\n";
  for (const std::string& argument : arguments)
    text += "$" + std::to_string(argument.size()) + "\r\n" + argument + "\r\n";
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t bytes =
        ::send(socket_.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (bytes <= 0) return broken();
    sent += static_cast<std::size_t>(bytes);
  }
  return read_reply();
}

RedisReply RedisClient::broken() {
  socket_.reset();
  return {};
}

bool RedisClient::fill() {
  std::array<char, 65536> part;
  const ssize_t bytes = ::recv(socket_.get(), part.data(), part.size(), 0);
  if (bytes <= 0) return false;
  buffer_.append(part.data(), static_cast<std::size_t>(bytes));
  return true;
}

bool RedisClient::read_line(std::string& line) {
  std::size_t end;
  while ((end = buffer_.find("\r\n")) == std::string::npos)
    if (!fill()) return false;
  line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return true;
}

RedisReply RedisClient::read_reply() {
  std::string line;
  if (!read_line(line) || line.empty()) return broken();
  RedisReply reply;
  reply.type = line[0];
  reply.text = line.substr(1);
  if (reply.type != '$' && reply.type != '*') return reply;
  const std::int64_t count = reply.integer();
  if (count < 0) {
    reply.nil = true;
  } else if (reply.type == '$') {
    const auto length = static_cast<std::size_t>(count);
    while (buffer_.size() < length + 2)
      if (!fill()) return broken();
    reply.text = buffer_.substr(0, length);
    buffer_.erase(0, length + 2);
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      reply.elements.push_back(read_reply());
      if (reply.elements.back().type == 0) return {};
    }
  }
  return reply;
}

}  // namespace terrace::test_support
