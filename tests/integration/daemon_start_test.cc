// Starting terraced where something is in its way: it must say so, leave with a status that is not
// 0 and damage nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "tests/integration/programs.h"

namespace terrace::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

ProcessResult start_another(const std::string& socket, const std::string& data_dir) {
  return run_program(
      "terraced", {"--socket", socket, "--data-dir", data_dir, "--set", "arena.slab=1MiB", "--set",
                   "device.capacity=16MiB", "--set", "disk.capacity=64MiB"});
}

TEST(DaemonStart, ASocketInUseIsLeftToItsOwner) {
  RunningDaemon owner;
  const Status started = owner.start();
  ASSERT_TRUE(started.ok()) << started.message();
  const TempDir elsewhere;
  const ProcessResult second = start_another(owner.socket_path(), elsewhere.file("data"));
  EXPECT_EQ(second.status, 1);
  EXPECT_THAT(second.errors,
              AllOf(StartsWith("terraced: "), HasSubstr(owner.socket_path()), HasSubstr("in use")));
  EXPECT_TRUE(owner.answers());
  EXPECT_EQ(owner.process().stop(), 0);
}

TEST(DaemonStart, ADataDirectoryOfAnotherDaemonIsLeftToIt) {
  RunningDaemon owner;
  const Status started = owner.start();
  ASSERT_TRUE(started.ok()) << started.message();
  const TempDir elsewhere;
  const ProcessResult second = start_another(elsewhere.file("socket"), owner.data_directory());
  EXPECT_EQ(second.status, 1);
  EXPECT_THAT(second.errors, AllOf(StartsWith("terraced: "), HasSubstr(owner.data_directory())));
  EXPECT_FALSE(std::filesystem::exists(elsewhere.file("socket")));
  EXPECT_TRUE(owner.answers());
  EXPECT_EQ(owner.process().stop(), 0);
}

TEST(DaemonStart, AFileThatIsNoSocketIsNotReplaced) {
  const TempDir directory;
  const std::string path = directory.file("letter.txt");
  std::ofstream(path) << "dear reader";
  const ProcessResult result = start_another(path, directory.file("data"));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.errors, AllOf(StartsWith("terraced: "), HasSubstr(path)));
  EXPECT_EQ(std::filesystem::file_size(path), 11u);
}

TEST(DaemonStart, ADataDirectoryThatIsAFileIsRefused) {
  const TempDir directory;
  const std::string path = directory.file("letter.txt");
  std::ofstream(path) << "dear reader";
  const ProcessResult result = start_another(directory.file("socket"), path);
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.errors, AllOf(StartsWith("terraced: "), HasSubstr(path)));
  EXPECT_FALSE(std::filesystem::exists(directory.file("socket")));
  EXPECT_EQ(std::filesystem::file_size(path), 11u);
}

TEST(DaemonStart, AfterAKillItStartsOnTheSameSocketAndData) {
  RunningDaemon daemon;
  const Status started = daemon.start();
  ASSERT_TRUE(started.ok()) << started.message();
  daemon.process().kill();
  EXPECT_TRUE(std::filesystem::exists(daemon.socket_path()));
  const Status again = daemon.start();
  ASSERT_TRUE(again.ok()) << again.message();
  EXPECT_EQ(daemon.process().stop(), 0);
}

TEST(DaemonStart, SigtermEndsItAndTakesTheSocketAway) {
  RunningDaemon daemon;
  const Status started = daemon.start();
  ASSERT_TRUE(started.ok()) << started.message();
  EXPECT_EQ(daemon.process().stop(), 0);
  EXPECT_FALSE(std::filesystem::exists(daemon.socket_path()));
}

TEST(DaemonStart, WorksWithoutADiskTier) {
  RunningDaemon daemon({"disk.enabled=false"});
  const Status started = daemon.start();
  ASSERT_TRUE(started.ok()) << started.message();
  EXPECT_EQ(daemon.process().stop(), 0);
}

}  // namespace
}  // namespace terrace::integration
