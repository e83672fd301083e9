// `terrace` against daemons that are there, absent, stopped, or not daemons at all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/unique_fd.h"
#include "tests/integration/programs.h"

namespace terrace::integration {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

UniqueFd listen_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(fd.get(), 8), 0);
  return fd;
}

TEST(Operator, WithoutADaemonSaysWhatToDo) {
  const TempDir directory;
  for (const char* command : {"stats", "ls"}) {
    const ProcessResult result =
        run_program("terrace", {"--socket", directory.file("absent"), command, "--json"});
    EXPECT_EQ(result.status, 3);
    EXPECT_EQ(result.output, "");
    expect_one_line(result.errors);
    EXPECT_THAT(result.errors, AllOf(StartsWith("terrace: "), HasSubstr(directory.file("absent")),
                                     HasSubstr("start a daemon with 'terraced --socket")));
  }
}

// The socket's default is where people look for a daemon that they started with none.
TEST(Operator, TheEnvironmentNamesTheSocket) {
  const TempDir directory;
  const ProcessResult result = run_program(
      "terrace", {"stats"}, {.environment = {{"TERRACE_SOCKET", directory.file("from-env")}}});
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.errors, HasSubstr(directory.file("from-env")));
}

TEST(Operator, AListenerThatNeverAnswersIsGivenUp) {
  const TempDir directory;
  const UniqueFd listener = listen_at(directory.file("hung"));
  for (const char* command : {"stats", "ls"}) {
    const ProcessResult result =
        run_program("terrace", {"--socket", directory.file("hung"), command});
    EXPECT_EQ(result.status, 3);
    expect_one_line(result.errors);
    EXPECT_THAT(result.errors,
                AllOf(HasSubstr(directory.file("hung")), HasSubstr("did not answer within 5 s")));
  }
}

TEST(Operator, AStoppedDaemonIsGivenUp) {
  RunningDaemon daemon;
  const Status started = daemon.start();
  ASSERT_TRUE(started.ok()) << started.message();
  daemon.process().signal(SIGSTOP);
  const ProcessResult result = daemon.terrace({"stats"});
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.errors, HasSubstr("did not answer within 5 s"));
  daemon.process().signal(SIGCONT);
  EXPECT_EQ(daemon.process().stop(), 0);
}

TEST(Operator, AListenerThatIsNoDaemonIsAnErrorInOneLine) {
  const TempDir directory;
  const UniqueFd listener = listen_at(directory.file("web"));
  std::thread answerer([&] {
    const UniqueFd connection(::accept(listener.get(), nullptr, nullptr));
    const std::string text = "HTTP/1.1 400 Bad Request\r\n\r\n" + std::string(1000, 'x');
    EXPECT_GT(::send(connection.get(), text.data(), text.size(), MSG_NOSIGNAL), 0);
  });
  const ProcessResult result = run_program("terrace", {"--socket", directory.file("web"), "stats"});
  answerer.join();
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.errors, StartsWith("terrace: "));
  expect_one_line(result.errors);
}

TEST(Operator, StatsShowTheTiers) {
  RunningDaemon daemon;
  const Status started = daemon.start();
  ASSERT_TRUE(started.ok()) << started.message();
  const ProcessResult json = daemon.terrace({"stats", "--json"});
  ASSERT_EQ(json.status, 0) << json.errors;
  expect_one_line(json.output);
  const auto stats = nlohmann::json::parse(json.output);
  for (const char* tier : {"device", "host", "disk"})
    for (const char* figure : {"capacity_bytes", "used_bytes", "blocks", "hits", "misses"})
      EXPECT_TRUE(stats.at("tiers").at(tier).at(figure).is_number_unsigned())
          << tier << "." << figure;
  EXPECT_EQ(stats["tiers"]["device"]["capacity_bytes"], 16 << 20);
  // A 64th is kept for the index.
  EXPECT_EQ(stats["tiers"]["disk"]["capacity_bytes"], (64 << 20) / 64 * 63);
  // Device memory is host memory here.
  EXPECT_EQ(stats["tiers"]["host"]["capacity_bytes"], 0);

  const ProcessResult table = daemon.terrace({"stats"});
  EXPECT_EQ(table.status, 0) << table.errors;
  EXPECT_THAT(table.output,
              AllOf(HasSubstr("device"), HasSubstr("16 MiB"), HasSubstr("host    off")));
}

TEST(Operator, AnEmptyCacheListsNothing) {
  RunningDaemon daemon;
  const Status started = daemon.start();
  ASSERT_TRUE(started.ok()) << started.message();
  const ProcessResult json = daemon.terrace({"ls", "--json"});
  ASSERT_EQ(json.status, 0) << json.errors;
  EXPECT_EQ(nlohmann::json::parse(json.output), nlohmann::json::array());
  EXPECT_EQ(daemon.terrace({"ls"}).output, "the cache is empty\n");
}

TEST(Operator, AFullStandardOutputIsAnError) {
  RunningDaemon daemon;
  const Status started = daemon.start();
  ASSERT_TRUE(started.ok()) << started.message();
  const ProcessResult result =
      run_process({"/bin/sh", "-c", "exec \"$0\" --socket \"$1\" stats >/dev/full",
                   program("terrace"), daemon.socket_path()});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.errors, HasSubstr("could not write to standard output"));
}

}  // namespace
}  // namespace terrace::integration
