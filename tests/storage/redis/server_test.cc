// One server's bookkeeping, without any connection: what it counts, and when it wants its turn.
#include "storage/redis/server.h"

#include <gtest/gtest.h>

#include "tests/storage/support/manual_clock.h"

namespace terrace::storage::redis {
namespace {

class ServerTest : public ::testing::Test, public Server::Owner {
 protected:
  void replied(Server&, Command&, Reply) override {}
  void received(Server&, Command&, Result<std::uint64_t>) override {}
  void spoiled(Command&) override {}
  void lost(Server&, std::unique_ptr<Command>, const Status&) override {}
  void breaker_opened(Server&, const std::string&, bool) override { ++opened_; }
  void breaker_closed(Server&) override {}
  std::unique_ptr<Command> make_probe(const Server&) override {
    return std::make_unique<Command>();
  }
  void resolve(const RedisEndpoint&) override {}

  static RedisOptions options() {
    RedisOptions options;
    options.breaker_failures = 3;
    return options;
  }
  // A connection that the server did not keep.
  void lose() {
    Connection::Owner& owner = server_;
    owner.closed(connection_, Status(StatusCode::unavailable, "lost"), true, {}, 0);
  }
  std::int64_t now() const { return clock_->monotonic_ns(); }

  const std::shared_ptr<ManualClock> clock_ = std::make_shared<ManualClock>();
  Environment environment_{options(), clock_, nullptr, -1, {}};
  // A name, that is never found: so nothing is connected.
  Server server_{environment_, {"redis.example", 6379}, *this, 1};
  Connection connection_{environment_, server_.endpoint(), server_};
  unsigned opened_ = 0;
};

TEST_F(ServerTest, ConnectionsThatAreLostTogetherAreOneFailure) {
  for (int i = 0; i < 10; ++i) lose();
  EXPECT_EQ(opened_, 0u);
}

TEST_F(ServerTest, LossesThatGoOnAndOnAreManyFailures) {
  for (int i = 0; i < 10; ++i) {
    lose();
    clock_->advance_ms(1);
  }
  EXPECT_EQ(opened_, 1u);
}

TEST_F(ServerTest, AfterEveryLossItWaitsBeforeItConnects) {
  for (int i = 0; i < 3; ++i) {
    lose();
    EXPECT_GE(server_.due_ns(), now() + 10 * ns_a_ms) << i;
    clock_->advance_ms(1);
  }
}

TEST_F(ServerTest, WhatIsQueuedWaitsForNoEvent) {
  EXPECT_FALSE(server_.has_more());
  server_.enqueue(std::make_unique<Command>());
  EXPECT_TRUE(server_.has_more());
  server_.run(now());
  EXPECT_FALSE(server_.has_more()) << "it was tried";
}

TEST_F(ServerTest, ARequestWaitsForAServerThatWasGivenItAndIsNotConnected) {
  const auto read = std::make_shared<ReadTask>();
  read->begun_ns = now();
  clock_->advance_ms(10);
  EXPECT_FALSE(server_.keeps_waiting(*read, now())) << "it has nothing of it";
  auto command = std::make_unique<Command>();
  command->read = read;
  server_.enqueue(std::move(command));
  EXPECT_TRUE(server_.keeps_waiting(*read, now()));
}

TEST_F(ServerTest, ThatItsConnectionsAreToBeClosedWaitsForNoEvent) {
  server_.not_ready("loading");
  EXPECT_TRUE(server_.has_more());
  server_.run(now());
  EXPECT_FALSE(server_.has_more());
}

}  // namespace
}  // namespace terrace::storage::redis
