// What operators do to a running daemon: pins, and dropping a space.
#include <gmock/gmock.h>

#include "tests/client/daemon_fixture.h"

namespace terrace::client {
namespace {

using ::testing::HasSubstr;

class OperatorTest : public DaemonFixture {
 protected:
  std::unique_ptr<OperatorClient> connect() {
    auto connected = OperatorClient::connect(socket_path());
    EXPECT_TRUE(connected.has_value()) << connected.error().message();
    return std::move(*connected);
  }
};

TEST_F(OperatorTest, APinIsListedKeptOverARestartAndEnded) {
  start_daemon();
  BlockKey key;
  {
    const auto client = connected_client();
    const auto space = client->open_space(descriptor());
    const auto tokens = prompt(3);
    store(*space, tokens);
    key = keys_of(*space, tokens)[1];
  }
  const auto pinned = connect()->pin(key, Tier::device, std::chrono::hours(1), soon());
  ASSERT_TRUE(pinned.has_value()) << pinned.error().message();
  EXPECT_EQ(pinned->blocks, 2u);
  EXPECT_EQ(pinned->bytes, 2 * block_bytes);
  EXPECT_EQ(pinned->tier, Tier::device);
  EXPECT_TRUE(pinned->whole);
  EXPECT_EQ(stats().at("pinned_bytes"), 2 * block_bytes);

  ASSERT_EQ(daemon().stop(), 0);
  ASSERT_TRUE(daemon().start().ok());
  const auto connection = connect();
  const auto pins = connection->list_pins(soon());
  ASSERT_TRUE(pins.has_value()) << pins.error().message();
  ASSERT_EQ(pins->size(), 1u);
  EXPECT_EQ((*pins)[0].key, key);
  EXPECT_EQ((*pins)[0].expires_unix_ms, pinned->expires_unix_ms);
  EXPECT_TRUE((*pins)[0].whole);
  EXPECT_TRUE(connection->unpin(key, soon()).ok());
  EXPECT_TRUE(connection->list_pins(soon())->empty());
}

TEST_F(OperatorTest, WhatCannotBePinnedIsSaidInWords) {
  start_daemon({"pins.capacity=1"});
  const auto client = connected_client();
  const auto space = client->open_space(descriptor());
  const auto tokens = prompt(1);
  store(*space, tokens);
  const auto connection = connect();
  const auto over =
      connection->pin(keys_of(*space, tokens)[0], std::nullopt, std::chrono::seconds(0), soon());
  ASSERT_FALSE(over.has_value());
  EXPECT_EQ(over.error().code(), StatusCode::resource_exhausted);
  EXPECT_THAT(over.error().message(), HasSubstr("pins would hold 64 KiB"));
  const auto unknown = connection->pin(BlockKey{}, std::nullopt, std::chrono::seconds(0), soon());
  ASSERT_FALSE(unknown.has_value());
  EXPECT_THAT(unknown.error().message(), ::testing::StartsWith("no prefix ends in block 0000"));
  EXPECT_FALSE(connection->unpin(BlockKey{}, soon()).ok());
}

TEST_F(OperatorTest, ADroppedSpaceIsEmptyAlsoAfterARestart) {
  start_daemon();
  const auto client = connected_client();
  const auto space = client->open_space(descriptor());
  const auto tokens = prompt(5);
  store(*space, tokens);
  const auto keys = keys_of(*space, tokens);
  const auto dropped = connect()->drop_space(space->digest(), soon());
  ASSERT_TRUE(dropped.has_value()) << dropped.error().message();
  EXPECT_EQ(*dropped, 5u);
  EXPECT_EQ(space->match(keys, tokens, soon())->matched_blocks, 0u);
  // It goes on as a new one.
  store(*space, prompt(2, 500));
  EXPECT_EQ(daemon().stop(), 0);
  ASSERT_TRUE(daemon().start().ok());
  EXPECT_EQ(stats().at("tiers").at("disk").at("blocks"), 2);
  EXPECT_FALSE(connect()->drop_space(BlockKey{}, soon()).has_value());
}

}  // namespace
}  // namespace terrace::client
