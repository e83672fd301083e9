// Servers that answer, but with a refusal.
#include <atomic>
#include <string>

#include "tests/storage/redis/log_counter.h"
#include "tests/storage/redis/remote_harness.h"

namespace terrace::storage {
namespace {

using test_support::RedisServer;
using test_support::wait_until;

void expect_reason(RemoteHarness& harness, const std::string& reason) {
  const std::string why = harness.store().usage().last_failure;
  EXPECT_NE(why.find(reason), std::string::npos) << why;
}

TEST(RedisRefusal, AFullServerTakesNoWritesAndServesReads) {
  RedisServer server({"--maxmemory", "12mb", "--maxmemory-policy", "noeviction"});
  RemoteHarness harness(options_for(server.port()));
  const auto blocks = chain(32, mib);
  RemoteCompletion written;
  std::size_t count = 0;
  for (; count < blocks.size(); ++count) {
    written = harness.write(blocks[count]);
    if (!written.status.ok()) break;
  }
  EXPECT_EQ(written.status.code(), StatusCode::no_space) << written.status.to_string();
  ASSERT_GT(count, 0u);
  expect_reason(harness, "OOM");
  EXPECT_GE(harness.store().usage().refused, 1u);
  // Nothing is written for a while, and nobody is asked.
  EXPECT_TRUE(harness.store().available());
  for (std::size_t i = 0; i < count; ++i)
    EXPECT_EQ(harness.read(blocks[i]).status.to_string(), "ok");
  server.command({"FLUSHALL"});
  EXPECT_TRUE(wait_until([&] { return harness.write(blocks[0]).status.ok(); }));
}

TEST(RedisRefusal, WhatAFullServerEvictsIsAMiss) {
  RedisServer server({"--maxmemory", "12mb", "--maxmemory-policy", "allkeys-lru"});
  RemoteHarness harness(options_for(server.port()));
  const auto blocks = chain(32, mib);
  for (const TestBlock& block : blocks) EXPECT_EQ(harness.write(block).status.to_string(), "ok");
  std::size_t found = 0, missing = 0;
  for (const TestBlock& block : blocks) {
    const Status status = harness.read(block).status;
    found += status.ok();
    missing += status.code() == StatusCode::not_found;
  }
  EXPECT_GT(found, 0u);
  EXPECT_GT(missing, 0u);
  EXPECT_EQ(found + missing, blocks.size());
}

TEST(RedisRefusal, AServerThatLoadsIsNotAskedUntilItHasLoaded) {
  RedisServer server;
  RemoteHarness harness(options_for(server.port()));
  const auto blocks = chain(40, 16 * kib);
  for (const TestBlock& block : blocks) ASSERT_TRUE(harness.write(block).status.ok());
  ASSERT_TRUE(server.command({"SAVE"}).ok());
  server.kill();
  server.start({"--key-load-delay", "50000", "--loading-process-events-interval-bytes", "1024"});
  ASSERT_TRUE(wait_until(
      [&] { return harness.store().usage().last_failure.find("LOADING") != std::string::npos; }));
  EXPECT_FALSE(harness.store().available());
  EXPECT_EQ(harness.read(blocks[0]).status.code(), StatusCode::unavailable);
  ASSERT_TRUE(harness.wait_available());
  for (const TestBlock& block : blocks) EXPECT_EQ(harness.read(block).status.to_string(), "ok");
}

TEST(RedisRefusal, AReplicaTakesNoWritesAndServesReads) {
  RedisServer server;
  RemoteHarness harness(options_for(server.port()));
  const auto blocks = chain(2, 64 * kib);
  ASSERT_TRUE(harness.write(blocks[0]).status.ok());
  server.command({"REPLICAOF", "127.0.0.1", std::to_string(test_support::free_port())});
  EXPECT_EQ(harness.write(blocks[1]).status.code(), StatusCode::unavailable);
  expect_reason(harness, "READONLY");
  EXPECT_TRUE(harness.store().available());
  EXPECT_EQ(harness.read(blocks[0]).status.to_string(), "ok");
  server.command({"REPLICAOF", "NO", "ONE"});
  EXPECT_TRUE(wait_until([&] { return harness.write(blocks[1]).status.ok(); }));
}

TEST(RedisRefusal, AReplicaWithoutItsMasterIsNotAsked) {
  RedisServer server;
  RemoteHarness harness(options_for(server.port()));
  const TestBlock block = test_block(test_space(64), 1, 64);
  ASSERT_TRUE(harness.write(block).status.ok());
  server.command({"CONFIG", "SET", "replica-serve-stale-data", "no"});
  server.command({"REPLICAOF", "127.0.0.1", std::to_string(test_support::free_port())});
  EXPECT_EQ(harness.read(block).status.code(), StatusCode::unavailable);
  ASSERT_TRUE(harness.wait_available(false));
  expect_reason(harness, "MASTERDOWN");
  server.command({"REPLICAOF", "NO", "ONE"});
  ASSERT_TRUE(harness.wait_available());
  EXPECT_EQ(harness.read(block).status.to_string(), "ok");
}

TEST(RedisRefusal, AClusterNodeWithoutSlotsIsNotAsked) {
  RedisServer server(
      {"--cluster-enabled", "yes", "--cluster-port", std::to_string(test_support::free_port())});
  RemoteHarness harness(options_for(server.port()));
  const TestBlock block = test_block(test_space(64), 1, 64);
  EXPECT_EQ(harness.write(block).status.code(), StatusCode::unavailable);
  ASSERT_TRUE(harness.wait_available(false));
  expect_reason(harness, "CLUSTERDOWN");
  server.command({"CLUSTER", "ADDSLOTSRANGE", "0", "16383"});
  ASSERT_TRUE(harness.wait_available());
  EXPECT_TRUE(wait_until([&] { return harness.write(block).status.ok(); }));
}

TEST(RedisRefusal, AUserWhoMayOnlyReadReads) {
  RedisServer server;
  server.command({"ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@read", "+ping", "+auth"});
  RedisOptions options = options_for(server.port());
  RemoteHarness writer(options);
  const TestBlock block = test_block(test_space(64), 1, 64);
  ASSERT_TRUE(writer.write(block).status.ok());
  options.user = "reader";
  options.password = "secret";
  RemoteHarness reader(options);
  EXPECT_EQ(reader.write(block).status.code(), StatusCode::unavailable);
  expect_reason(reader, "NOPERM");
  EXPECT_TRUE(reader.store().available());
  EXPECT_EQ(reader.read(block).status.to_string(), "ok");
}

TEST(RedisRefusal, AServerThatIsNoClusterIsSaidToBeNone) {
  RedisServer server;
  RedisOptions options = options_for(server.port());
  options.mode = RedisMode::cluster;
  RemoteHarness harness(options);
  EXPECT_EQ(harness.read(test_block(test_space(64), 1, 64)).status.code(), StatusCode::unavailable);
  expect_reason(harness, "cluster support disabled");
}

// A server that refuses the work, and would answer an easier question.
class RedisRefusalForGood : public ::testing::Test {
 protected:
  // Waits until the server has refused so many probes; meanwhile it must count as away.
  void expect_away(RemoteHarness& harness) {
    ASSERT_TRUE(harness.wait_available(false));
    const auto refusals = [this] {
      return server_.number({"INFO", "stats"}, "total_error_replies").value_or(0);
    };
    const std::int64_t before = refusals();
    ASSERT_TRUE(wait_until([&] { return refusals() >= before + 5; }));
    EXPECT_FALSE(harness.store().available());
    EXPECT_EQ(openings_.count(), 1u) << "it was said to answer in between";
  }

  LogCounter openings_{"not asked until"};
  RedisServer server_;
  const TestBlock block_ = test_block(test_space(64), 1, 64);
};

TEST_F(RedisRefusalForGood, AUserWhoMayNotReadIsNoUse) {
  server_.command({"ACL", "SETUSER", "stranger", "on", ">secret", "~other:*", "+@all"});
  RedisOptions options = options_for(server_.port());
  options.user = "stranger";
  options.password = "secret";
  RemoteHarness harness(options);
  EXPECT_EQ(harness.lookup(chain(1, 64)).status.code(), StatusCode::unavailable);
  expect_away(harness);
  expect_reason(harness, "NOPERM");
  server_.command({"ACL", "SETUSER", "stranger", "~*"});
  EXPECT_TRUE(harness.wait_available());
  EXPECT_TRUE(wait_until([&] { return harness.write(block_).status.ok(); }));
}

TEST_F(RedisRefusalForGood, AUserWhoMayAskAndNotReadIsNoUse) {
  server_.command({"ACL", "SETUSER", "half", "on", ">secret", "~*", "+@all", "-get"});
  RedisOptions options = options_for(server_.port());
  options.user = "half";
  options.password = "secret";
  RemoteHarness harness(options);
  ASSERT_EQ(harness.write(block_).status.to_string(), "ok");
  EXPECT_EQ(harness.read(block_).status.code(), StatusCode::unavailable);
  expect_away(harness);
  expect_reason(harness, "NOPERM");
  server_.command({"ACL", "SETUSER", "half", "+get"});
  ASSERT_TRUE(harness.wait_available());
  EXPECT_EQ(harness.read(block_).status.to_string(), "ok");
}

// The machine's clock with a date of its own.
class DatedClock final : public Clock {
 public:
  std::int64_t monotonic_ns() const override { return system_.monotonic_ns(); }
  std::int64_t unix_ms() const override { return date_ms; }
  std::atomic<std::int64_t> date_ms = 1000;

 private:
  const SystemClock system_;
};

TEST_F(RedisRefusalForGood, ItIsOffSinceItFailedAndNotSinceItWasLastTried) {
  const auto allow = [this](const char* keys) {
    server_.command({"ACL", "SETUSER", "stranger", "on", ">secret", "resetkeys", keys, "+@all"});
  };
  allow("~other:*");
  RedisOptions options = options_for(server_.port());
  options.user = "stranger";
  options.password = "secret";
  const auto clock = std::make_shared<DatedClock>();
  RemoteHarness harness(options, clock);
  EXPECT_EQ(harness.read(block_).status.code(), StatusCode::unavailable);
  expect_away(harness);
  EXPECT_EQ(harness.store().usage().failed_unix_ms, 1000);
  clock->date_ms = 2000;
  expect_away(harness);  // which tries it some more times
  EXPECT_EQ(harness.store().usage().failed_unix_ms, 1000);
  allow("~*");
  ASSERT_TRUE(harness.wait_available());
  allow("~other:*");
  EXPECT_EQ(harness.read(block_).status.code(), StatusCode::unavailable);
  ASSERT_TRUE(harness.wait_available(false));
  EXPECT_EQ(harness.store().usage().failed_unix_ms, 2000);
}

TEST_F(RedisRefusalForGood, AServerWithoutAMapIsNoUseToACluster) {
  RedisOptions options = options_for(server_.port());
  options.mode = RedisMode::cluster;
  RemoteHarness harness(options);
  expect_away(harness);
  expect_reason(harness, "cluster support disabled");
}

TEST(RedisRefusal, AServerThatDoesNotKnowAuthTellsNobodyThePassword) {
  RedisServer server({"--rename-command", "AUTH", ""});
  RedisOptions options = options_for(server.port());
  for (const char* user : {"", "worker"}) {
    options.user = user;
    options.password = "hidden-secret";
    RemoteHarness harness(options);
    ASSERT_TRUE(harness.wait_available(false));
    expect_reason(harness, "ERR: the server refused AUTH");
    const std::string why = harness.store().usage().last_failure;
    EXPECT_EQ(why.find("secret"), std::string::npos) << why;
    const Status status = harness.lookup(chain(1, 64)).status;
    EXPECT_EQ(status.message().find("secret"), std::string::npos) << status.to_string();
  }
}

}  // namespace
}  // namespace terrace::storage
