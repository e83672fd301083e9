#include "client/cli/doctor/redis_check.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "client/cli/text.h"
#include "core/unique_fd.h"

namespace terrace::cli::doctor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t max_reply_bytes = 512;
// An answer that takes longer eats most of what a match waits for Redis.
constexpr double slow_answer_ms = 10;

struct FreeAddresses {
  void operator()(addrinfo* addresses) const { ::freeaddrinfo(addresses); }
};

// Waits for `events`; false at the deadline.
bool wait_for(int fd, short events, Clock::time_point deadline) {
  pollfd waiting{fd, events, 0};
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return ::poll(&waiting, 1, static_cast<int>(std::max<std::int64_t>(left, 0))) == 1;
}

Result<UniqueFd> connect_to(const std::string& endpoint, std::chrono::milliseconds timeout) {
  const auto colon = endpoint.rfind(':');
  std::string host = endpoint.substr(0, colon);
  if (host.starts_with("[") && host.ends_with("]")) host = host.substr(1, host.size() - 2);
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = colon == std::string::npos ? "6379" : endpoint.substr(colon + 1);
  if (const int failure = ::getaddrinfo(host.c_str(), port.c_str(), &wanted, &found); failure != 0)
    return error(StatusCode::unavailable,
                 "could not resolve " + host + ": " + ::gai_strerror(failure));
  const std::unique_ptr<addrinfo, FreeAddresses> addresses(found);
  const auto deadline = Clock::now() + timeout;
  std::string why = "there is no address";
  for (const addrinfo* at = addresses.get(); at; at = at->ai_next) {
    UniqueFd fd(::socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) continue;
    if (::connect(fd.get(), at->ai_addr, at->ai_addrlen) == 0) return fd;
    int failure = errno;
    if (failure == EINPROGRESS) {
      socklen_t size = sizeof failure;
      if (!wait_for(fd.get(), POLLOUT, deadline))
        failure = ETIMEDOUT;
      else
        ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &failure, &size);
      if (failure == 0) return fd;
    }
    why = std::strerror(failure);
  }
  return error(StatusCode::unavailable, why);
}

void add_word(std::string& command, const std::string& word) {
  command += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
}

// One command and the first line of its answer.
Result<std::string> ask(int fd, const std::vector<std::string>& words,
                        std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  std::string command = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) add_word(command, word);
  if (::send(fd, command.data(), command.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(command.size()))
    return error(StatusCode::unavailable, "could not send");
  std::string reply;
  while (reply.find("\r\n") == std::string::npos) {
    char buffer[max_reply_bytes];
    if (!wait_for(fd, POLLIN, deadline))
      return error(StatusCode::deadline_exceeded,
                   "no answer within " + std::to_string(timeout.count()) + " ms");
    const ssize_t read = ::recv(fd, buffer, sizeof buffer, 0);
    if (read <= 0 || reply.size() + static_cast<std::size_t>(read) > max_reply_bytes)
      return error(StatusCode::unavailable, "the connection was closed");
    reply.append(buffer, static_cast<std::size_t>(read));
  }
  reply.resize(reply.find("\r\n"));
  if (!reply.starts_with("+")) return error(StatusCode::failed_precondition, printable(reply));
  return reply;
}

}  // namespace

RedisFacts gather_redis(const std::string& endpoint, const config::RedisOptions& options) {
  RedisFacts facts;
  facts.endpoint = endpoint;
  facts.tls = options.tls.enabled;
  const auto fd = connect_to(endpoint, options.connect_timeout);
  if (!fd) {
    facts.connected = fd.error();
    return facts;
  }
  if (facts.tls) return facts;
  if (!options.password.empty()) {
    std::vector<std::string> words = {"AUTH"};
    if (!options.user.empty()) words.push_back(options.user);
    words.push_back(options.password);
    // An answer to AUTH does not repeat the password, but for a command that is not understood.
    if (const auto answer = ask(fd->get(), words, options.request_timeout); !answer) {
      facts.answered = {answer.error().code(), "the login was refused"};
      return facts;
    }
  }
  const auto begin = Clock::now();
  if (const auto answer = ask(fd->get(), {"PING"}, options.request_timeout); !answer)
    facts.answered = answer.error();
  facts.answer_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  return facts;
}

Findings check_redis(const RedisFacts& facts) {
  if (!facts.connected.ok())
    return {{"redis", Severity::problem,
             "could not connect to " + facts.endpoint + ": " + facts.connected.message(),
             "start it, or correct redis.endpoints; the daemon serves without it meanwhile"}};
  if (facts.tls)
    return {{"redis", Severity::ok,
             facts.endpoint + " takes connections; over TLS it was not asked", ""}};
  if (!facts.answered.ok())
    return {{"redis", Severity::problem,
             facts.endpoint + " does not answer PING: " + facts.answered.message(),
             "see redis.user, redis.user_file and redis.password_file, and the server's log"}};
  char text[48];
  std::snprintf(text, sizeof text, " answers within %.1f ms", facts.answer_ms);
  const bool slow = facts.answer_ms > slow_answer_ms;
  return {{"redis", slow ? Severity::warning : Severity::ok, facts.endpoint + text,
           slow ? "a server that is nearer: redis.lookup_timeout_ms is what a match waits" : ""}};
}

}  // namespace terrace::cli::doctor
