// The built programs, as tests of the whole run them.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace terrace::integration {

using test_support::Process;
using test_support::ProcessOptions;
using test_support::ProcessResult;
using test_support::run_process;
using test_support::TempDir;
using test_support::wait_until;

inline std::string program(const std::string& name) {
  return std::string(TERRACE_BIN_DIR) + "/" + name;
}

// Runs a program of ours to its end.
inline ProcessResult run_program(const std::string& name, std::vector<std::string> arguments,
                                 const ProcessOptions& options = {},
                                 std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  arguments.insert(arguments.begin(), program(name));
  return run_process(arguments, options, timeout);
}

// A terraced with a socket and a data directory of its own, and arenas that fit a test.
class RunningDaemon {
 public:
  // Not yet running: start() does that.
  explicit RunningDaemon(std::vector<std::string> more_arguments = {})
      : arguments_({program("terraced"), "--socket", socket_path(), "--data-dir", data_dir(),
                    "--set", "arena.slab=1MiB", "--set", "device.capacity=16MiB", "--set",
                    "disk.capacity=64MiB"}) {
    arguments_.insert(arguments_.end(), more_arguments.begin(), more_arguments.end());
  }

  // Starts it, or starts it again on the same data. Whether it answers in the end.
  bool start() {
    process_ = std::make_unique<Process>(arguments_);
    return wait_until([&] { return answers() || !process_->running(); }) && process_->running();
  }

  bool answers() const {
    return run_program("terrace", {"--socket", socket_path(), "stats", "--json"}).status == 0;
  }

  // SIGTERM; its exit status, or nothing if it does not end.
  std::optional<int> stop() {
    process_->signal(SIGTERM);
    return process_->wait(std::chrono::seconds(60));
  }

  // What `terrace` prints of it. The test's log shows what went wrong, if anything did.
  ProcessResult terrace(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"--socket", socket_path()});
    return run_program("terrace", std::move(arguments));
  }

  Process& process() { return *process_; }
  std::string socket_path() const { return directory_.file("terraced.sock"); }
  std::string data_dir() const { return directory_.file("data"); }

 private:
  TempDir directory_;
  std::vector<std::string> arguments_;
  std::unique_ptr<Process> process_;
};

}  // namespace terrace::integration
