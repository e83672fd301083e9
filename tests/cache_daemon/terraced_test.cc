// terraced as people start and stop it.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/support/daemon_process.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace terrace::daemon {
namespace {

using test_support::run_process;

const std::string terraced = std::string(TERRACE_BIN_DIR) + "/terraced";

class TerracedTest : public ::testing::Test {
 protected:
  test_support::TempDir directory_;

  std::unique_ptr<test_support::DaemonProcess> start() {
    auto daemon = std::make_unique<test_support::DaemonProcess>(test_support::DaemonOptions{
        terraced, directory_.path(), {"device.capacity=\"64MiB\"", "disk.capacity=\"64MiB\""}});
    const Status status = daemon->start();
    EXPECT_TRUE(status.ok()) << status.message();
    return daemon;
  }

  // Refuses to start: one line that names the program and what is wrong.
  void expect_refusal(const std::vector<std::string>& arguments, const std::string& what) {
    // Should it start, against what is expected, then not where a user's own daemon lives.
    std::vector<std::string> command = {terraced};
    for (const std::string& setting :
         {std::string("log.level=\"error\""), std::string("device.capacity=\"64MiB\""),
          "socket=\"" + directory_.file("refused.sock") + "\"",
          "data_dir=\"" + directory_.file("refused") + "\""})
      command.insert(command.end(), {"--set", setting});
    command.insert(command.end(), arguments.begin(), arguments.end());
    const auto result = run_process(command);
    EXPECT_EQ(result.status, 1);
    EXPECT_EQ(result.errors.rfind("terraced: ", 0), 0u) << result.errors;
    EXPECT_NE(result.errors.find(what), std::string::npos) << result.errors;
    EXPECT_EQ(std::ranges::count(result.errors, '\n'), 1) << result.errors;
    EXPECT_EQ(result.output, "");
  }
};

TEST_F(TerracedTest, ASocketInUseIsRefusedAndStaysInUse) {
  const auto daemon = start();
  expect_refusal({"--socket", daemon->socket_path(), "--data-dir", directory_.file("other")},
                 "in use");
  EXPECT_TRUE(std::filesystem::exists(daemon->socket_path()));
  EXPECT_FALSE(std::filesystem::exists(directory_.file("other")));
}

TEST_F(TerracedTest, TheDataDirectoryOfAnotherDaemonIsRefused) {
  const auto daemon = start();
  const std::string socket = directory_.file("other.sock");
  expect_refusal({"--socket", socket, "--data-dir", daemon->data_directory()},
                 daemon->data_directory());
  EXPECT_FALSE(std::filesystem::exists(socket));
  EXPECT_EQ(daemon->stop(), 0) << daemon->log();
}

TEST_F(TerracedTest, WhatCannotBeReadIsRefused) {
  expect_refusal({"--no-such-option"}, "--no-such-option");
  expect_refusal({"--set", "no.such.key=1"}, "no.such.key");
  expect_refusal({"--config", directory_.file("absent.toml")}, "absent.toml");
  std::ofstream(directory_.file("bad.toml")) << "[disk]\nenabled = 3\n";
  expect_refusal({"--config", directory_.file("bad.toml")}, "bad.toml:2");
}

TEST_F(TerracedTest, AFailureBelowItIsOneLine) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizers need descriptors of their own";
#endif
  // One descriptor beside the standard ones, and none inherited: the event loop cannot be made.
  const auto result = run_process(
      {"/bin/sh", "-c", "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n 4; exec \"$@\"", "sh",
       terraced, "--socket", directory_.file("s"), "--data-dir", directory_.file("data")});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.errors.rfind("terraced: ", 0), 0u) << result.errors;
  EXPECT_EQ(std::ranges::count(result.errors, '\n'), 1) << result.errors;
}

TEST_F(TerracedTest, StopsOnSigtermAndRemovesItsSocket) {
  const auto daemon = start();
  EXPECT_EQ(daemon->stop(), 0) << daemon->log();
  EXPECT_NE(daemon->log().find("ready"), std::string::npos) << daemon->log();
  EXPECT_FALSE(std::filesystem::exists(daemon->socket_path()));
}

TEST_F(TerracedTest, IsStartedAgainAfterItWasKilled) {
  const auto daemon = start();
  daemon->kill();
  EXPECT_TRUE(std::filesystem::exists(daemon->socket_path()));
  EXPECT_TRUE(daemon->start().ok()) << daemon->log();
}

TEST_F(TerracedTest, SaysWhatItIs) {
  const auto version = run_process({terraced, "--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_EQ(version.output.rfind("terraced ", 0), 0u) << version.output;
  const auto help = run_process({terraced, "--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_NE(help.output.find("--data-dir"), std::string::npos) << help.output;
}

}  // namespace
}  // namespace terrace::daemon
