// A real terraced, run as a child process on a data directory and a socket of its own.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/status.h"
#include "tests/support/process.h"

namespace terrace::test_support {

struct DaemonOptions {
  std::string program;                                  // path of terraced
  std::string directory;                                // for data/ and terraced.sock; exists
  std::vector<std::string> settings;                    // each passed on as --set
  std::map<std::string, std::string> environment = {};  // in addition to the test's own
  std::string config = "";                              // a file, passed on as --config
};

// Killed, if it still runs, when destroyed, or when the thread that started it ends. Not
// thread-safe.
class DaemonProcess {
 public:
  explicit DaemonProcess(DaemonOptions options) : options_(std::move(options)) {}

  // Starts it and waits until it accepts connections.
  Status start(std::chrono::seconds limit = std::chrono::seconds(60));
  // SIGTERM, then waits for the drain to end. The exit status, or -1 if it had to be killed at the
  // limit.
  int stop(std::chrono::seconds limit = std::chrono::seconds(60));
  // SIGKILL, and waits.
  void kill();
  void signal(int number);
  pid_t pid() const { return process_ ? process_->pid() : -1; }

  // Of the process that was started last.
  std::string log() const { return log_ + (process_ ? process_->errors() : ""); }

  std::string socket_path() const { return options_.directory + "/terraced.sock"; }
  std::string data_directory() const { return options_.directory + "/data"; }

 private:
  DaemonOptions options_;
  std::optional<Process> process_;
  std::string log_;  // of a process that has ended
};

// The folder of the running program, where its siblings lie.
std::string program_directory();

}  // namespace terrace::test_support
