// A line of the log is a line, and JSON where that is asked for.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "protocol/packed.h"
#include "tests/cache_daemon/protocol_fixture.h"

namespace terrace::daemon {
namespace {

class LogTest : public ProtocolFixture {};

TEST_F(LogTest, EveryLineIsOneObjectOfJson) {
  start_daemon({"log.format=json", "log.level=debug"});
  open_session(*connect());
  ASSERT_EQ(daemon_->stop(), 0);
  std::istringstream lines(daemon_->log());
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    ASSERT_TRUE(json.is_object()) << line;
    for (const char* key : {"time", "level", "message"})
      EXPECT_TRUE(json.at(key).is_string()) << line;
  }
  EXPECT_GT(count, 2u);
}

// An acquire of a block that another session is computing waits as long as it may.
TEST_F(LogTest, ASlowAcquireIsALineThatSaysWhereTheTimeWent) {
  start_daemon({"log.format=json", "log.slow_ms=1"});
  const auto computing = connect(), waiting = connect();
  auto first = open_session(*computing), second = open_session(*waiting);
  auto theirs = open_space(first), own = open_space(second);
  const BlockKey key = derive_block_key(BlockKey(), std::vector<Token>(32, 5));
  auto reserving = theirs.reserveRequest();
  reserving.setLease(1);
  reserving.setKeys(protocol::pack(key));
  wait(reserving.send());
  auto acquiring = own.acquireRequest();
  acquiring.setLease(7);
  acquiring.setKeys(protocol::pack(key));
  acquiring.setWaitMs(20);
  EXPECT_EQ(wait(acquiring.send()).getTiers().size(), 0u);

  std::istringstream lines(daemon_->log());
  nlohmann::json slow;
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.at("message") == "slow acquire") slow = json;
  }
  ASSERT_TRUE(slow.is_object()) << daemon_->log();
  EXPECT_EQ(slow.at("level"), "warning");
  EXPECT_EQ(slow.at("lease"), 7);
  EXPECT_EQ(slow.at("keys"), 1);
  EXPECT_EQ(slow.at("blocks"), 0);
  EXPECT_GE(slow.at("others_ms"), 1.0);
  EXPECT_GE(slow.at("ms"), slow.at("others_ms"));
  EXPECT_EQ(slow.at("disk_ms"), 0.0);
}

}  // namespace
}  // namespace terrace::daemon
