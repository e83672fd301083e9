// What a service manager is told, and what SIGHUP changes, of a real daemon.
#include "cache_daemon/service_manager.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <fstream>

#include "tests/support/daemon_process.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace terrace::daemon {
namespace {

class ServiceManagerTest : public ::testing::Test {
 protected:
  static constexpr int patience_ms = 60'000;

  void SetUp() override {
    socket_.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path_.c_str());
    ASSERT_EQ(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }

  std::unique_ptr<test_support::DaemonProcess> start(
      std::map<std::string, std::string> environment = {}, const std::string& config = "") {
    environment["NOTIFY_SOCKET"] = path_;
    std::vector<std::string> settings = {"device.capacity=8MiB", "arena.slab=4MiB",
                                         "disk.enabled=false"};
    auto daemon = std::make_unique<test_support::DaemonProcess>(
        test_support::DaemonOptions{std::string(TERRACE_BIN_DIR) + "/terraced", directory_.path(),
                                    std::move(settings), std::move(environment), config});
    const Status status = daemon->start();
    EXPECT_TRUE(status.ok()) << status.message();
    return daemon;
  }

  // The next message, or "" if none comes.
  std::string next() {
    pollfd waiting{socket_.get(), POLLIN, 0};
    if (::poll(&waiting, 1, patience_ms) != 1) return "";
    char buffer[4096];
    const ssize_t got = ::recv(socket_.get(), buffer, sizeof buffer, 0);
    return std::string(buffer, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  }
  // The first that begins so; "" if none comes.
  std::string next_with(const std::string& beginning) {
    std::string message = next();
    while (!message.empty() && !message.starts_with(beginning)) message = next();
    return message;
  }

  test_support::TempDir directory_;
  const std::string path_ = directory_.file("notify");
  UniqueFd socket_;
};

TEST_F(ServiceManagerTest, IsToldWhenTheDaemonIsReadyAndThatItStops) {
  const auto daemon = start();
  EXPECT_EQ(next(), "READY=1\nSTATUS=ready");
  EXPECT_EQ(daemon->stop(), 0);
  EXPECT_EQ(next(), "STOPPING=1\nSTATUS=draining");
  EXPECT_EQ(next(), "STATUS=draining: 0 blocks left");
}

TEST_F(ServiceManagerTest, IsToldThatTheLoopRunsAsOftenAsItAsks) {
  const auto daemon = start({{"WATCHDOG_USEC", "20000"}});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(next_with("WATCHDOG=1"), "WATCHDOG=1");
}

TEST_F(ServiceManagerTest, IsNotToldAboutAnotherProcess) {
  const auto daemon = start({{"WATCHDOG_USEC", "20000"}, {"WATCHDOG_PID", "1"}});
  EXPECT_EQ(next(), "READY=1\nSTATUS=ready");
  EXPECT_EQ(daemon->stop(), 0);
  EXPECT_EQ(next(), "STOPPING=1\nSTATUS=draining");
}

TEST_F(ServiceManagerTest, IsAbsentOrNonsenseWithoutHarm) {
  ServiceManager().tell("READY=1");
  ::setenv("NOTIFY_SOCKET", "relative", 1);
  ServiceManager::from_environment().tell("READY=1");
  EXPECT_EQ(::getenv("NOTIFY_SOCKET"), nullptr);
  ::setenv("NOTIFY_SOCKET", directory_.file("nobody").c_str(), 1);
  ServiceManager::from_environment().tell("READY=1");
  ::setenv("NOTIFY_SOCKET", std::string(300, '/').c_str(), 1);
  ServiceManager::from_environment().tell("READY=1");
}

TEST_F(ServiceManagerTest, SighupTakesOverWhatMayChangeAndNamesTheRest) {
  const std::string config = directory_.file("terraced.toml");
  std::ofstream(config) << "[log]\nlevel = 'info'\n[tenants.research]\ndevice = '4MiB'\n";
  const auto daemon = start({}, config);
  EXPECT_EQ(next(), "READY=1\nSTATUS=ready");

  std::ofstream(config) << "request_budget_ms = 77\n[log]\nlevel = 'debug'\n[tenants.research]\n"
                           "device = '1MiB'\n[tenants.other]\ndevice = '1MiB'\n";
  daemon->signal(SIGHUP);
  EXPECT_TRUE(next().starts_with("RELOADING=1\nMONOTONIC_USEC="));
  EXPECT_EQ(next(), "READY=1\nSTATUS=ready");
  const std::string log = daemon->log();
  EXPECT_NE(log.find("SIGHUP: took over log.level, tenants.research.device\n"), std::string::npos)
      << log;
  EXPECT_NE(log.find("SIGHUP: takes effect at the next start only: request_budget_ms, "
                     "tenants.other.device"),
            std::string::npos)
      << log;

  // What does not parse changes nothing.
  std::ofstream(config) << "[log]\nlevel = 'loud'\n";
  daemon->signal(SIGHUP);
  EXPECT_TRUE(next().starts_with("RELOADING=1"));
  EXPECT_EQ(next(), "READY=1\nSTATUS=ready");
  EXPECT_NE(daemon->log().find("SIGHUP: everything stays as it is: "), std::string::npos);
  EXPECT_EQ(daemon->stop(), 0);
}

}  // namespace
}  // namespace terrace::daemon
