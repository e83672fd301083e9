// Whatever becomes of the daemon or the connection, calls return, nothing leaks, and the client
// comes back by itself.
#include <dirent.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <filesystem>

#include "tests/client/daemon_fixture.h"
#include "tests/support/process.h"

namespace terrace::client {
namespace {

using test_support::wait_until;

class FailureTest : public DaemonFixture {
 protected:
  static constexpr std::chrono::milliseconds budget{100};
  static Deadline within_budget() { return Deadline::clock::now() + budget; }

  // Breaks every connection of this process to the daemon, as a fault between the two would.
  int break_connections() {
    int broken = 0;
    DIR* directory = ::opendir("/proc/self/fd");
    while (const dirent* entry = ::readdir(directory)) {
      const int fd = std::atoi(entry->d_name);
      sockaddr_un peer{};
      socklen_t size = sizeof peer;
      if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
          peer.sun_family == AF_UNIX && socket_path() == peer.sun_path && ++broken)
        ::shutdown(fd, SHUT_RDWR);
    }
    ::closedir(directory);
    return broken;
  }
};

TEST_F(FailureTest, WithoutADaemonCallsAreRefusedAtOnce) {
  const auto client = start_client();
  const auto space = client->open_space(descriptor());
  const auto tokens = prompt(2);
  const auto keys = keys_of(*space, tokens);
  EXPECT_EQ(client->wait_connected(within_budget()).code(), StatusCode::unavailable);
  // With no deadline to speak of: who waits for the daemon hangs here.
  EXPECT_EQ(space->match(keys, tokens, Deadline::max()).error().code(), StatusCode::unavailable);
  EXPECT_EQ(space->acquire(1, keys, {}, Deadline::max()).error().code(), StatusCode::unavailable);
  EXPECT_EQ(space->reserve(1, keys, 0, Deadline::max()).error().code(), StatusCode::unavailable);
  EXPECT_EQ(space->flush(Deadline::max()).code(), StatusCode::unavailable);
  EXPECT_FALSE(client->connected());
  space->seal(1, {});
  space->release(1);
}

TEST_F(FailureTest, ADaemonThatComesLaterIsFound) {
  const auto client = start_client();
  const auto space = client->open_space(descriptor());
  EXPECT_FALSE(client->wait_connected(within_budget()).ok());
  start_daemon();
  ASSERT_TRUE(client->wait_connected(soon()).ok());
  store(*space, prompt(3));
}

TEST_F(FailureTest, ChangesAreToldOnce) {
  std::atomic<int> came{0}, went{0};
  ClientOptions options;
  options.socket_path = socket_path();
  options.on_change = [&](bool connected, const std::string& why) {
    EXPECT_EQ(why.empty(), connected);
    ++(connected ? came : went);
  };
  const auto client = Client::start(options);
  ASSERT_TRUE(wait_until([&] { return went == 1; }));
  start_daemon();
  ASSERT_TRUE(client->wait_connected(soon()).ok());
  EXPECT_TRUE(wait_until([&] { return came == 1; }));
  EXPECT_EQ(went, 1);
  daemon().kill();
  EXPECT_TRUE(wait_until([&] { return went == 2; }));
  EXPECT_EQ(came, 1);
}

TEST_F(FailureTest, AStoppedDaemonCostsOneDeadlineAndNothingLeaks) {
  start_daemon();
  const auto client = connected_client();
  const auto space = client->open_space(descriptor());
  const auto tokens = prompt(4);
  const auto keys = keys_of(*space, tokens);
  store(*space, tokens);

  daemon().signal(SIGSTOP);
  // All under way at once, so that each reaches the daemon before the stall is noticed.
  std::vector<std::thread> threads;
  std::vector<StatusCode> codes(3);
  threads.emplace_back(
      [&] { codes[0] = space->match(keys, tokens, within_budget()).error().code(); });
  threads.emplace_back([&] {
    codes[1] = space->acquire(space->new_lease(), keys, {}, within_budget()).error().code();
  });
  threads.emplace_back([&] {
    codes[2] = space->reserve(space->new_lease(), {}, 5, within_budget()).error().code();
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(codes, std::vector(3, StatusCode::deadline_exceeded));

  ASSERT_TRUE(wait_until([&] { return !client->connected(); }));
  // Refused at once, without a deadline to speak of.
  EXPECT_EQ(space->match(keys, tokens, Deadline::max()).error().code(), StatusCode::unavailable);

  daemon().signal(SIGCONT);
  ASSERT_TRUE(wait_until([&] { return client->connected(); }));
  ASSERT_TRUE(space->flush(soon()).ok());
  const auto figures = stats();
  EXPECT_EQ(figures.at("sessions"), 1);  // the connection was kept
  EXPECT_EQ(figures.at("leases"), 0);
  EXPECT_EQ(figures.at("reserved_slots"), 0);
  EXPECT_EQ(space->match(keys, tokens, soon())->matched_blocks, keys.size());
}

TEST_F(FailureTest, AFailedCallKeepsWhatItsLeaseHeldBefore) {
  start_daemon();
  const auto client = connected_client();
  const auto space = client->open_space(descriptor());
  const LeaseId lease = space->new_lease();
  ASSERT_EQ(space->reserve(lease, {}, 2, soon())->size(), 2u);
  daemon().signal(SIGSTOP);
  EXPECT_FALSE(space->reserve(lease, {}, 5, within_budget()).has_value());
  daemon().signal(SIGCONT);
  ASSERT_TRUE(wait_until([&] { return client->connected(); }));
  ASSERT_TRUE(space->flush(soon()).ok());
  EXPECT_EQ(stats().at("reserved_slots"), 2);
}

TEST_F(FailureTest, AClientOfAStoppedDaemonCanBeDestroyed) {
  start_daemon();
  auto client = connected_client();
  auto space = client->open_space(descriptor());
  const auto tokens = prompt(4);
  const auto keys = keys_of(*space, tokens);
  const LeaseId lease = space->new_lease();
  const auto slots = space->reserve(lease, keys, 0, soon());
  ASSERT_TRUE(slots.has_value());
  daemon().signal(SIGSTOP);
  space->seal(lease, seal_blocks(*space, tokens, keys, *slots));
  client.reset();
  EXPECT_EQ(space->match(keys, tokens, Deadline::max()).error().code(), StatusCode::unavailable);
  daemon().signal(SIGCONT);
}

TEST_F(FailureTest, ADaemonThatIsKilledAndStartedAgainIsFoundWithItsSpaces) {
  start_daemon();
  const auto client = connected_client();
  const auto space = client->open_space(descriptor());
  const auto tokens = prompt(4);
  const auto keys = keys_of(*space, tokens);
  const LeaseId lease = space->new_lease();
  const auto old = space->reserve(lease, keys, 0, soon());
  ASSERT_TRUE(old.has_value());
  ASSERT_EQ(old->size(), keys.size());
  daemon().kill();
  ASSERT_TRUE(wait_until([&] { return !client->connected(); }));
  // The arena of the dead daemon is this process's own now.
  for (std::size_t i = 0; i < keys.size(); ++i) fill((*old)[i], keys[i]);

  start_daemon();
  ASSERT_TRUE(client->wait_connected(soon()).ok());
  // What names the old daemon's lease and slots does nothing.
  space->seal(lease, seal_blocks(*space, tokens, keys, *old));
  space->release(lease);
  ASSERT_TRUE(space->flush(soon()).ok());
  EXPECT_EQ(space->match(keys, tokens, soon())->matched_blocks, 0u);
  store(*space, tokens);
  EXPECT_EQ(space->match(keys, tokens, soon())->matched_blocks, keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) EXPECT_TRUE(holds((*old)[i], keys[i]));
}

TEST_F(FailureTest, WhatWasSealedSurvivesAnOrderlyRestart) {
  start_daemon();
  const auto client = connected_client();
  const auto space = client->open_space(descriptor());
  const auto tokens = prompt(20);
  const auto keys = keys_of(*space, tokens);
  store(*space, tokens);
  ASSERT_EQ(daemon().stop(), 0) << daemon().log();
  start_daemon();
  ASSERT_TRUE(wait_until([&] {
    const auto match = space->match(keys, tokens, soon());
    return match && match->blocks == std::vector(keys.size(), BlockState::disk);
  }));
  const auto blocks = space->acquire(space->new_lease(), keys, {}, soon());
  ASSERT_TRUE(blocks.has_value()) << blocks.error().message();
  ASSERT_EQ(blocks->size(), keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ((*blocks)[i].from, Tier::disk);
    EXPECT_TRUE(holds((*blocks)[i].slot, keys[i]));
  }
}

TEST_F(FailureTest, AStopEndsAtTheDeadlineOfItsDrain) {
  start_daemon({"drain_deadline_s=0"});
  {
    const auto client = connected_client();
    const auto space = client->open_space(descriptor());
    store(*space, prompt(400));
  }
  EXPECT_EQ(daemon().stop(), 0) << daemon().log();
  EXPECT_FALSE(std::filesystem::exists(socket_path()));
  const std::string log = daemon().log();
  EXPECT_NE(log.find("draining: "), std::string::npos) << log;
  const bool gave_up = log.find("gave up draining after 0 s") != std::string::npos;
  const bool drained = log.find("drained: everything is on disk") != std::string::npos;
  EXPECT_NE(gave_up, drained) << log;
  // Whatever the drain was cut off at, the next start finds its data directory free and whole.
  start_daemon();
  const auto client = connected_client();
  store(*client->open_space(descriptor()), prompt(2));
}

TEST_F(FailureTest, SlotsOfALostConnectionAreQuarantinedUntilTheyAreLetGo) {
  start_daemon();
  const auto client = connected_client();
  const auto space = client->open_space(descriptor());
  auto slots = space->reserve(space->new_lease(), {}, 3, soon());
  ASSERT_TRUE(slots.has_value());
  ASSERT_EQ(slots->size(), 3u);
  ASSERT_EQ(break_connections(), 1);
  EXPECT_TRUE(stats_become("quarantined_slots", 3));
  // Still this process's to write to: nobody else gets them. Reserving fails until the client has
  // noticed and come back.
  Result<std::vector<Slot>> others;
  ASSERT_TRUE(wait_until([&] {
    others = space->reserve(space->new_lease(), {}, 4000, soon());
    return others.has_value();
  }));
  ASSERT_FALSE(others->empty());
  for (const Slot& other : *others)
    for (const Slot& slot : *slots) EXPECT_NE(other.offset, slot.offset);
  EXPECT_EQ(stats().at("quarantined_slots"), 3);
  slots->clear();
  EXPECT_TRUE(stats_become("quarantined_slots", 0));
}

TEST_F(FailureTest, AKilledProcessHoldsNothing) {
  start_daemon();
  test_support::Process holder({std::string(TERRACE_BIN_DIR) + "/lease_holder", socket_path()});
  ASSERT_TRUE(wait_until([&] { return holder.output().find("holding") != std::string::npos; }))
      << holder.errors();
  auto figures = stats();
  EXPECT_EQ(figures.at("sessions"), 1);
  EXPECT_EQ(figures.at("reserved_slots"), 5);
  holder.signal(SIGKILL);
  EXPECT_TRUE(stats_become("sessions", 0));
  figures = stats();
  EXPECT_EQ(figures.at("leases"), 0);
  EXPECT_EQ(figures.at("reserved_slots"), 0);
  EXPECT_EQ(figures.at("quarantined_slots"), 0);
}

TEST_F(FailureTest, AProcessThatIsKilledAfterItLostItsConnectionHoldsNothing) {
  start_daemon();
  test_support::Process holder(
      {std::string(TERRACE_BIN_DIR) + "/lease_holder", socket_path(), "--drop-connection"});
  ASSERT_TRUE(stats_become("quarantined_slots", 5)) << holder.errors();
  holder.signal(SIGKILL);
  EXPECT_TRUE(stats_become("quarantined_slots", 0));
  EXPECT_EQ(stats().at("sessions"), 0);
}

}  // namespace
}  // namespace terrace::client
