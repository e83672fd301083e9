#include "tests/support/daemon_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

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

DaemonProcess::DaemonProcess(DaemonOptions options) : options_(std::move(options)) {}

DaemonProcess::~DaemonProcess() { kill(); }

Status DaemonProcess::start(std::chrono::seconds limit) {
  std::vector<std::string> arguments = {options_.program, "--data-dir", data_directory(),
                                        "--socket", socket_path()};
  for (const std::string& setting : options_.settings) {
    arguments.push_back("--set");
    arguments.push_back(setting);
  }
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const std::string log_path = options_.directory + "/terraced.log";

  pid_ = ::fork();
  if (pid_ < 0) return errno_status(errno, "could not fork");
  if (pid_ == 0) {
    const int log_fd = ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (log_fd >= 0) {
      ::dup2(log_fd, 1);
      ::dup2(log_fd, 2);
    }
    ::execv(pointers[0], pointers.data());
    ::_exit(127);
  }
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!accepts_connections(socket_path())) {
    int status = 0;
    if (wait_for_end(poll_interval, &status))
      return Status(StatusCode::unavailable, "terraced ended at once:\n" + log());
    if (std::chrono::steady_clock::now() > deadline)
      return Status(StatusCode::deadline_exceeded, "terraced is not ready:\n" + log());
  }
  return {};
}

bool DaemonProcess::wait_for_end(std::chrono::milliseconds limit, int* status) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (true) {
    const pid_t ended = ::waitpid(pid_, status, WNOHANG);
    if (ended == pid_ || (ended < 0 && errno == ECHILD)) {
      pid_ = -1;
      return true;
    }
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(poll_interval);
  }
}

int DaemonProcess::stop(std::chrono::seconds limit) {
  if (pid_ < 0) return -1;
  signal(SIGTERM);
  int status = 0;
  if (wait_for_end(limit, &status)) return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  kill();
  return -1;
}

void DaemonProcess::kill() {
  if (pid_ < 0) return;
  signal(SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void DaemonProcess::signal(int number) {
  if (pid_ > 0) ::kill(pid_, number);
}

std::string DaemonProcess::log() const {
  std::ifstream file(options_.directory + "/terraced.log");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string program_directory() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}

}  // namespace terrace::test_support
