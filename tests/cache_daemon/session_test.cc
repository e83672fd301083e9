// What a session may do and what it may not.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache_daemon/limits.h"
#include "tests/cache_daemon/protocol_fixture.h"
#include "tests/support/process.h"

namespace terrace::daemon {
namespace {

class SessionTest : public ProtocolFixture {
 protected:
  // The descriptor that came with an arena. It is closed with the capability.
  int descriptor_of(protocol::Arena::Client& arena) { return wait(arena.getFd()).orDefault(-1); }

  bool stats_become(Connection& connection, const char* name, std::uint64_t value) {
    return test_support::wait_until([&] { return stats(connection).at(name) == value; }, patience);
  }
};

TEST_F(SessionTest, TheDeviceArenaIsSharedAndKeepsItsSize) {
  start_daemon();
  const auto connection = connect();
  auto session = open_session(*connection);
  auto answer = wait(session.deviceArenaRequest().send());
  auto arena = answer.getArena();
  const int fd = descriptor_of(arena);
  ASSERT_GE(fd, 0);
  struct stat info;
  ASSERT_EQ(::fstat(fd, &info), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(info.st_size), answer.getBytes());
  // Shorter, the daemon would die of SIGBUS; longer, the cap would not hold.
  EXPECT_NE(::ftruncate(fd, 0), 0);
  EXPECT_NE(::ftruncate(fd, info.st_size + 4096), 0);
  void* memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_NE(memory, MAP_FAILED);
  ::munmap(memory, 4096);
}

TEST_F(SessionTest, TheHostArenaCannotBeWritten) {
  start_daemon({"host.capacity=\"4MiB\""});
  const auto connection = connect();
  auto session = open_session(*connection);
  auto answer = wait(session.hostArenaRequest().send());
  EXPECT_EQ(answer.getBytes(), 4u << 20);
  auto arena = answer.getArena();
  const int fd = descriptor_of(arena);
  ASSERT_GE(fd, 0);
  EXPECT_NE(::ftruncate(fd, 0), 0);
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_LT(::pwrite(fd, "x", 1, 0), 0);
  void* memory = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_NE(::mprotect(memory, 4096, PROT_READ | PROT_WRITE), 0);
  ::munmap(memory, 4096);
}

TEST_F(SessionTest, WithoutAHostTierThereIsNoHostArena) {
  start_daemon({"host.capacity=0"});
  const auto connection = connect();
  auto session = open_session(*connection);
  const auto answer = wait(session.hostArenaRequest().send());
  EXPECT_EQ(answer.getBytes(), 0u);
  EXPECT_FALSE(answer.hasArena());
}

TEST_F(SessionTest, AConnectionHasOneSession) {
  start_daemon();
  const auto connection = connect();
  open_session(*connection);
  EXPECT_TRUE(fails(connection->worker.openSessionRequest().send()));
  EXPECT_EQ(stats(*connection).at("sessions"), 1);
}

TEST_F(SessionTest, LimitsRefuseACallAndNothingElse) {
  start_daemon(
      {"limits.max_keys_per_call=4", "limits.max_leases_per_session=2", "limits.max_sessions=1"});
  const auto connection = connect();
  auto session = open_session(*connection);
  auto space = open_space(session);

  auto match = space.matchRequest();
  match.initKeys(5 * 32);
  EXPECT_TRUE(fails(match.send()));
  auto half = space.matchRequest();
  half.initKeys(33);
  EXPECT_TRUE(fails(half.send()));
  auto tokens = space.matchRequest();
  tokens.initTokens(5);
  EXPECT_TRUE(fails(tokens.send()));
  auto device = space.reserveRequest();
  device.setDeviceIndex(1);
  EXPECT_TRUE(fails(device.send()));

  reserve(space, 1, 1);
  reserve(space, 2, 1);
  auto third = space.reserveRequest();
  third.setLease(3);
  EXPECT_TRUE(fails(third.send()));
  auto release = space.releaseRequest();
  release.initLeases(1).set(0, 1);
  wait(release.send());
  reserve(space, 3, 1);

  const auto other = connect();
  EXPECT_TRUE(fails(other->worker.openSessionRequest().send()));
  EXPECT_EQ(stats(*other).at("reserved_slots"), 2);
}

TEST_F(SessionTest, WhatIsPastALimitIsToldItsName) {
  start_daemon({"limits.max_keys_per_call=4", "limits.max_leases_per_session=1",
                "limits.max_tokens_per_call=64", "limits.max_spaces_per_session=1",
                "limits.max_sessions=1"});
  const auto connection = connect();
  auto session = open_session(*connection);
  auto space = open_space(session);
  const auto said = [&](auto&& promise) -> std::string {
    KJ_IF_MAYBE (exception, kj::runCatchingExceptions([&] { promise.wait(io_.waitScope); })) {
      return exception->getDescription().cStr();
    }
    return "no error";
  };
  auto keys = space.matchRequest();
  keys.initKeys(5 * 32);
  EXPECT_NE(said(keys.send()).find("limits.max_keys_per_call = 4: found 5 keys"),
            std::string::npos);
  auto tokens = space.matchRequest();
  tokens.initTokens(65 * sizeof(Token));
  EXPECT_NE(said(tokens.send()).find("limits.max_tokens_per_call = 64: found 65 tokens"),
            std::string::npos);
  EXPECT_NE(said(space_request(session, 1).send()).find("limits.max_spaces_per_session = 1"),
            std::string::npos);
  reserve(space, 1, 1);
  auto second = space.reserveRequest();
  second.setLease(2);
  EXPECT_NE(said(second.send()).find("limits.max_leases_per_session = 1"), std::string::npos);
  const auto other = connect();
  EXPECT_NE(said(other->worker.openSessionRequest().send()).find("limits.max_sessions = 1"),
            std::string::npos);
}

TEST_F(SessionTest, AConnectionHasSoManyRequestsOpenAndNoMore) {
  start_daemon({"limits.max_requests_per_connection=2"});
  const auto computing = connect(), waiting = connect();
  auto session = open_session(*computing), waiting_session = open_session(*waiting);
  auto space = open_space(session), waiting_space = open_space(waiting_session);
  auto reserve_key = space.reserveRequest();
  reserve_key.setLease(1);
  reserve_key.initKeys(32)[0] = 7;
  wait(reserve_key.send());
  const auto acquire = [&](std::uint64_t lease) {
    auto request = waiting_space.acquireRequest();
    request.setLease(lease);
    request.initKeys(32)[0] = 7;
    request.setWaitMs(60'000);
    return request.send();
  };
  auto first = acquire(1), second = acquire(2);
  std::string why;
  KJ_IF_MAYBE (exception, kj::runCatchingExceptions([&] { acquire(3).wait(io_.waitScope); })) {
    why = exception->getDescription().cStr();
  }
  EXPECT_NE(why.find("limits.max_requests_per_connection = 2"), std::string::npos) << why;
  auto release = space.releaseRequest();
  release.initLeases(1).set(0, 1);
  wait(release.send());
  wait(kj::mv(first));
  wait(kj::mv(second));
  EXPECT_FALSE(fails(acquire(3)));
}

TEST_F(SessionTest, ACallThatWaitsEndsBeforeWhatItRefersTo) {
  start_daemon();
  const auto computing = connect(), waiting = connect();
  auto session = open_session(*computing), waiting_session = open_session(*waiting);
  auto space = open_space(session), waiting_space = open_space(waiting_session);
  auto reserve_key = space.reserveRequest();
  reserve_key.setLease(1);
  reserve_key.initKeys(32)[0] = 7;
  wait(reserve_key.send());
  auto acquire = waiting_space.acquireRequest();
  acquire.setLease(1);
  acquire.initKeys(32)[0] = 7;
  acquire.setWaitMs(60'000);
  const auto waits = acquire.send();
  ASSERT_TRUE(test_support::wait_until([&] { return stats(*computing)["waiting_acquires"] == 1; }));
  EXPECT_EQ(daemon_->stop(), 0) << daemon_->log();
}

TEST_F(SessionTest, ASessionOpensSoManySpacesAndNoMore) {
  constexpr std::uint8_t max_spaces_per_session = 5;
  start_daemon({"limits.max_spaces_per_session=5"});
  const auto connection = connect();
  auto session = open_session(*connection);
  for (std::size_t i = 0; i < max_spaces_per_session; ++i)
    wait(space_request(session, static_cast<std::uint8_t>(i)).send());
  EXPECT_TRUE(fails(space_request(session, max_spaces_per_session).send()));
  // One that it has already counts once.
  EXPECT_FALSE(fails(space_request(session, 0).send()));
  EXPECT_EQ(stats(*connection).at("spaces"), max_spaces_per_session);
}

TEST_F(SessionTest, ALostConnectionQuarantinesUntilTheProcessDisownsTheSession) {
  start_daemon();
  auto connection = connect();
  auto opened = wait(connection->worker.openSessionRequest().send());
  const std::uint64_t id = opened.getSessionId();
  {
    auto session = opened.getSession();
    auto space = open_space(session);
    reserve(space, 1, 3);
  }
  connection.reset();

  const auto second = connect();
  auto session = open_session(*second);
  ASSERT_TRUE(stats_become(*second, "quarantined_slots", 3));
  auto stranger = session.touchesNothingRequest();
  stranger.initSessionIds(1).set(0, id + 1000);
  wait(stranger.send());
  EXPECT_EQ(stats(*second).at("quarantined_slots"), 3);
  auto disown = session.touchesNothingRequest();
  disown.initSessionIds(1).set(0, id);
  wait(disown.send());
  EXPECT_EQ(stats(*second).at("quarantined_slots"), 0);
  EXPECT_EQ(stats(*second).at("sessions"), 1);
}

TEST_F(SessionTest, ALostConnectionThatHeldNothingLocksNobodyOut) {
  start_daemon({"limits.max_sessions=1"});
  const auto watcher = connect();
  for (int round = 0; round < 3; ++round) {
    auto connection = connect();
    {
      auto session = open_session(*connection);
      auto space = open_space(session);
      reserve(space, 1, 3);
      auto release = space.releaseRequest();
      release.initLeases(1).set(0, 1);
      wait(release.send());
    }
    connection.reset();
    ASSERT_TRUE(stats_become(*watcher, "sessions", 0));
  }
}

TEST_F(SessionTest, TheSessionOfAnotherProcessCannotBeDisowned) {
  start_daemon();
  const test_support::Process holder(
      {std::string(TERRACE_BIN_DIR) + "/lease_holder", daemon_->socket_path()});
  const auto connection = connect();
  ASSERT_TRUE(stats_become(*connection, "reserved_slots", 5)) << holder.errors();
  auto opened = wait(connection->worker.openSessionRequest().send());
  auto session = opened.getSession();
  auto disown = session.touchesNothingRequest();
  // Every session that there may be but this one.
  const auto others = static_cast<unsigned>(opened.getSessionId());
  auto ids = disown.initSessionIds(others);
  for (unsigned i = 0; i < others; ++i) ids.set(i, i);
  wait(disown.send());
  EXPECT_EQ(stats(*connection).at("reserved_slots"), 5);
}

}  // namespace
}  // namespace terrace::daemon
