// A real terrace-worker that serves a small random model, and a plain HTTP client before it.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/http_client.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace terrace::inference {

struct ApiAnswer {
  int status = 0;
  std::string head, body;
  nlohmann::json json() const { return nlohmann::json::parse(body, nullptr, false); }
  // Of a stream: what each event has, [DONE] left out.
  std::vector<nlohmann::json> events() const {
    std::vector<nlohmann::json> all;
    for (std::size_t at = 0; (at = body.find("data: ", at)) != std::string::npos;) {
      const std::size_t end = body.find("\n\n", at);
      const std::string text = body.substr(at + 6, end - at - 6);
      if (text != "[DONE]") all.push_back(nlohmann::json::parse(text, nullptr, false));
      at = end;
    }
    return all;
  }
};

inline std::string post_text(const std::string& path, const std::string& body,
                             const std::string& headers = "Content-Type: application/json\r\n") {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

// One answer off a connection, whether its length is told or it comes in chunks.
inline ApiAnswer read_answer(const UniqueFd& fd) {
  ApiAnswer answer;
  std::string all;
  const auto more = [&] {
    char buffer[1 << 14];
    const ssize_t got = ::recv(fd.get(), buffer, sizeof buffer, 0);
    if (got > 0) all.append(buffer, static_cast<std::size_t>(got));
    return got > 0;
  };
  std::size_t head_end;
  while ((head_end = all.find("\r\n\r\n")) == std::string::npos)
    if (!more()) return answer;
  answer.head = all.substr(0, head_end + 2);
  answer.status = std::atoi(all.c_str() + 9);
  std::size_t at = head_end + 4;
  const std::size_t length = answer.head.find("Content-Length: ");
  if (length != std::string::npos) {
    const auto bytes = std::strtoul(answer.head.c_str() + length + 16, nullptr, 10);
    while (all.size() < at + bytes && more()) {
    }
    answer.body = all.substr(at);
    return answer;
  }
  while (true) {
    std::size_t line_end;
    while ((line_end = all.find("\r\n", at)) == std::string::npos)
      if (!more()) return answer;
    const auto bytes = std::strtoul(all.c_str() + at, nullptr, 16);
    at = line_end + 2;
    while (all.size() < at + bytes + 2)
      if (!more()) return answer;
    answer.body += all.substr(at, bytes);
    at += bytes + 2;
    if (bytes == 0) return answer;
  }
}

class WorkerServer {
 public:
  explicit WorkerServer(const std::string& model, std::vector<std::string> arguments = {},
                        std::map<std::string, std::string> environment = {}) {
    std::vector<std::string> command = {std::string(TERRACE_BIN_DIR) + "/terrace-worker",
                                        "serve",
                                        "--model",
                                        model,
                                        "--listen",
                                        "127.0.0.1:0",
                                        "--threads",
                                        "2"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    process_ = std::make_unique<test_support::Process>(
        command, test_support::ProcessOptions{.input = "", .environment = std::move(environment)});
    EXPECT_TRUE(test_support::wait_until([&] {
      port_ = test_support::http_port_of_log(process_->errors());
      return port_ != 0 || !process_->running();
    })) << process_->errors();
    EXPECT_NE(port_, 0) << process_->errors();
  }

  std::uint16_t port() const { return port_; }
  test_support::Process& process() { return *process_; }
  // 0 and a clean log.
  int stop() {
    process_->signal(SIGTERM);
    return process_->wait(std::chrono::seconds(60)).value_or(-1);
  }

  UniqueFd begin(const std::string& path, const nlohmann::json& body) const {
    UniqueFd fd = test_support::connect_to_port(port_);
    EXPECT_TRUE(test_support::send_all(fd, post_text(path, body.dump())));
    return fd;
  }
  ApiAnswer post(const std::string& path, const nlohmann::json& body) const {
    return read_answer(begin(path, body));
  }
  ApiAnswer send(const std::string& request) const {
    const UniqueFd fd = test_support::connect_to_port(port_);
    EXPECT_TRUE(test_support::send_all(fd, request));
    return read_answer(fd);
  }
  // The value of a line of /metrics, such as name{label="x"}.
  double metric(const std::string& line) const {
    const std::string text = "\n" + test_support::http_get(port_, "/metrics").body;
    const std::size_t at = text.find("\n" + line + " ");
    return at == std::string::npos ? -1 : std::atof(text.c_str() + at + line.size() + 2);
  }
  bool metric_becomes(const std::string& line, double value) const {
    return test_support::wait_until([&] { return metric(line) == value; });
  }

 private:
  std::unique_ptr<test_support::Process> process_;
  std::uint16_t port_ = 0;
};

}  // namespace terrace::inference
