// The built programs, as tests of the whole run them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/daemon_process.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace terrace::integration {

using test_support::Process;
using test_support::ProcessOptions;
using test_support::ProcessResult;
using test_support::run_process;
using test_support::TempDir;

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

// What a program says of a mistake.
inline void expect_one_line(const std::string& text) {
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_TRUE(!text.empty() && text.back() == '\n') << text;
}

// A terraced with a socket and a data directory of its own, and arenas that fit a test.
class RunningDaemon {
 public:
  // Not yet running: start() does that.
  explicit RunningDaemon(std::vector<std::string> settings = {})
      : process_({program("terraced"), directory_.path(), with_small_arenas(std::move(settings))}) {
  }

  // Starts it, or starts it again on the same data.
  Status start() { return process_.start(); }

  // What `terrace` says of it.
  ProcessResult terrace(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"--socket", socket_path()});
    return run_program("terrace", std::move(arguments));
  }
  bool answers() const { return terrace({"stats", "--json"}).status == 0; }

  test_support::DaemonProcess& process() { return process_; }
  std::string socket_path() const { return process_.socket_path(); }
  std::string data_directory() const { return process_.data_directory(); }

  static std::vector<std::string> with_small_arenas(std::vector<std::string> settings) {
    settings.insert(settings.begin(),
                    {"arena.slab=1MiB", "device.capacity=16MiB", "disk.capacity=64MiB"});
    return settings;
  }

 private:
  TempDir directory_;
  test_support::DaemonProcess process_;
};

}  // namespace terrace::integration
