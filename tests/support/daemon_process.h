// A real terraced, run as a child process on a data directory and a socket of its own.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "core/status.h"

namespace terrace::test_support {

struct DaemonOptions {
  std::string program;                // path of terraced
  std::string directory;              // for data/, terraced.sock and terraced.log; exists
  std::vector<std::string> settings;  // each passed on as --set
};

// Killed, if it still runs, when destroyed.
class DaemonProcess {
 public:
  explicit DaemonProcess(DaemonOptions options);
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  // Starts it and waits until it accepts connections; its log goes to the end of terraced.log.
  Status start(std::chrono::seconds limit = std::chrono::seconds(60));
  // SIGTERM, then waits for the drain to end. The exit status, or -1 if it had to be killed at the
  // limit.
  int stop(std::chrono::seconds limit = std::chrono::seconds(60));
  // SIGKILL, and waits.
  void kill();
  void signal(int number);

  pid_t pid() const { return pid_; }
  std::string socket_path() const { return options_.directory + "/terraced.sock"; }
  std::string data_directory() const { return options_.directory + "/data"; }
  std::string log() const;

 private:
  // Whether the process has ended within `limit`; its status in *status.
  bool wait_for_end(std::chrono::milliseconds limit, int* status);

  DaemonOptions options_;
  pid_t pid_ = -1;
};

// The folder of the running program, where its siblings lie.
std::string program_directory();

}  // namespace terrace::test_support
