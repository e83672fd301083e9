// Programs that a test runs: with their output kept, a bound on how long they take, and none left
// behind, however the test ends.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/unique_fd.h"
#include "tests/support/temp_dir.h"

namespace terrace::test_support {

struct ProcessOptions {
  std::string input;                               // standard input
  std::map<std::string, std::string> environment;  // in addition to the test's own
};

// A running program. Not thread-safe. Killed by the destructor, and by the kernel if the thread that
// started it ends.
class Process {
 public:
  // `arguments` begins with the program's path. Ends the test's process if it cannot be started.
  explicit Process(const std::vector<std::string>& arguments, const ProcessOptions& options = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;

  // The exit status, 128 + N after signal N, or nothing if it still runs after `timeout`.
  std::optional<int> wait(std::chrono::milliseconds timeout);
  bool running() { return !wait(std::chrono::milliseconds(0)).has_value(); }

  // What it has written so far.
  std::string output() const;
  std::string errors() const;

 private:
  TempDir directory_;
  pid_t pid_ = -1;
  UniqueFd pidfd_;
  std::optional<int> status_;
};

struct ProcessResult {
  std::optional<int> status;  // nothing: it had to be killed because it took too long
  std::string output;
  std::string errors;
};

// Runs a program to its end.
ProcessResult run_process(const std::vector<std::string>& arguments,
                          const ProcessOptions& options = {},
                          std::chrono::milliseconds timeout = std::chrono::seconds(60));

// Calls `done` until it returns true or the time is up; whether it did. For what only shows from
// outside a process, such as a socket that answers.
template <typename Condition>
bool wait_until(Condition done, std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace terrace::test_support
