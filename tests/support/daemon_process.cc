#include "tests/support/daemon_process.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <filesystem>

#include "core/unique_fd.h"

namespace terrace::test_support {

namespace {

constexpr std::chrono::milliseconds poll_interval{5};

bool accepts_connections(const std::string& path) {
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  return ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

}  // namespace

Status DaemonProcess::start(std::chrono::seconds limit) {
  kill();
  std::vector<std::string> arguments = {options_.program, "--data-dir", data_directory(),
                                        "--socket", socket_path(),
                                        // One port for all daemons of a machine is one too few.
                                        "--set", "http.listen=off"};
  if (!options_.config.empty()) arguments.insert(arguments.end(), {"--config", options_.config});
  for (const std::string& setting : options_.settings) {
    arguments.push_back("--set");
    arguments.push_back(setting);
  }
  log_.clear();
  process_.emplace(arguments, ProcessOptions{.input = "", .environment = options_.environment});
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!accepts_connections(socket_path())) {
    if (process_->wait(poll_interval))
      return Status(StatusCode::unavailable, "terraced ended at once:\n" + log());
    if (std::chrono::steady_clock::now() > deadline)
      return Status(StatusCode::deadline_exceeded, "terraced is not ready:\n" + log());
  }
  return {};
}

int DaemonProcess::stop(std::chrono::seconds limit) {
  if (!process_) return -1;
  signal(SIGTERM);
  const auto status = process_->wait(limit);
  kill();
  return status.value_or(-1);
}

void DaemonProcess::kill() {
  if (!process_) return;
  log_ = process_->errors();
  process_.reset();
}

void DaemonProcess::signal(int number) {
  if (process_) process_->signal(number);
}

std::string program_directory() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}

}  // namespace terrace::test_support
