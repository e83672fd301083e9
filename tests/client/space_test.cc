// The walk of a request over a real socket: reserve, seal, match, acquire, release.
#include <algorithm>

#include "tests/client/daemon_fixture.h"

namespace terrace::client {
namespace {

using SpaceTest = DaemonFixture;

TEST_F(SpaceTest, WhatWasSealedIsMatchedAndAcquired) {
  start_daemon();
  const auto client = connected_client();
  const auto space = client->open_space(descriptor());
  const auto tokens = prompt(40);
  const auto keys = keys_of(*space, tokens);

  auto match = space->match(keys, tokens, soon());
  ASSERT_TRUE(match.has_value()) << match.error().message();
  EXPECT_EQ(match->matched_blocks, 0u);
  EXPECT_TRUE(std::ranges::all_of(match->blocks,
                                  [](BlockState state) { return state == BlockState::absent; }));

  store(*space, tokens);
  match = space->match(keys, tokens, soon());
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->matched_blocks, keys.size());
  EXPECT_TRUE(std::ranges::all_of(match->blocks,
                                  [](BlockState state) { return state == BlockState::device; }));

  const LeaseId lease = space->new_lease();
  const auto blocks = space->acquire(lease, keys, {}, soon());
  ASSERT_TRUE(blocks.has_value()) << blocks.error().message();
  ASSERT_EQ(blocks->size(), keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ((*blocks)[i].from, Tier::device);
    EXPECT_TRUE(holds((*blocks)[i].slot, keys[i])) << i;
  }
  EXPECT_EQ(stats().at("leases"), 1);
  space->release(lease);
  ASSERT_TRUE(space->flush(soon()).ok());
  EXPECT_EQ(stats().at("leases"), 0);
}

TEST_F(SpaceTest, ReservedBlocksShowAsPendingAndUnnamedSlotsFollow) {
  start_daemon();
  const auto client = connected_client();
  const auto space = client->open_space(descriptor());
  const auto tokens = prompt(3);
  const auto keys = keys_of(*space, tokens);
  const LeaseId lease = space->new_lease();
  const auto slots = space->reserve(lease, keys, 2, soon());
  ASSERT_TRUE(slots.has_value());
  EXPECT_EQ(slots->size(), keys.size() + 2);
  const auto match = space->match(keys, tokens, soon());
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->matched_blocks, 0u);
  EXPECT_EQ(match->blocks, std::vector<BlockState>(keys.size(), BlockState::pending));
}

TEST_F(SpaceTest, LeadingTokensOfAMissingBlockAreOffered) {
  start_daemon();
  const auto client = connected_client();
  const auto space = client->open_space(descriptor());
  auto tokens = prompt(2);
  store(*space, tokens);
  tokens[block_tokens + 20] = -1;
  const auto match = space->match(keys_of(*space, tokens), tokens, soon());
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->matched_blocks, 1u);
  EXPECT_EQ(match->partial_tokens, 20u);
}

TEST_F(SpaceTest, TwoClientsShareABlockWithoutACopy) {
  start_daemon();
  const auto writer = connected_client();
  const auto reader = connected_client();
  const auto written = writer->open_space(descriptor());
  const auto read = reader->open_space(descriptor());
  const auto tokens = prompt(4);
  const auto keys = keys_of(*written, tokens);
  store(*written, tokens);
  const auto one = written->acquire(written->new_lease(), keys, {}, soon());
  const auto other = read->acquire(read->new_lease(), keys, {}, soon());
  ASSERT_TRUE(one.has_value() && other.has_value());
  ASSERT_EQ(one->size(), keys.size());
  ASSERT_EQ(other->size(), keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ((*one)[i].slot.offset, (*other)[i].slot.offset);
    EXPECT_TRUE(holds((*other)[i].slot, keys[i]));
  }
}

TEST_F(SpaceTest, SpacesAreApart) {
  start_daemon();
  const auto client = connected_client();
  const auto space = client->open_space(descriptor());
  auto other_descriptor = descriptor();
  other_descriptor.adapter = "another";
  const auto other = client->open_space(other_descriptor);
  const auto tokens = prompt(2);
  store(*space, tokens);
  const auto match = other->match(keys_of(*other, tokens), tokens, soon());
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->matched_blocks, 0u);
}

TEST_F(SpaceTest, AReserveThatFindsNoRoomGivesFewer) {
  start_daemon();
  const auto client = connected_client();
  const auto space = client->open_space(descriptor());
  const auto slots = space->reserve(space->new_lease(), {}, 4000, soon());
  ASSERT_TRUE(slots.has_value());
  EXPECT_EQ(slots->size(), (32u << 20) / block_bytes);
  const auto none = space->reserve(space->new_lease(), {}, 1, soon());
  ASSERT_TRUE(none.has_value());
  EXPECT_TRUE(none->empty());
}

TEST_F(SpaceTest, AnAbsurdDescriptorFailsItsCallsOnly) {
  start_daemon();
  const auto client = connected_client();
  auto absurd = descriptor();
  absurd.block_bytes = 3;
  const auto space = client->open_space(absurd);
  const auto tokens = prompt(1);
  EXPECT_FALSE(space->match(keys_of(*space, tokens), tokens, soon()).has_value());
  EXPECT_TRUE(client->connected());
  store(*client->open_space(descriptor()), tokens);
}

TEST_F(SpaceTest, SealsAndReleasesOfAClosedSpaceStillGoOut) {
  start_daemon();
  const auto client = connected_client();
  const auto tokens = prompt(8);
  auto space = client->open_space(descriptor());
  const auto keys = keys_of(*space, tokens);
  const auto slots = space->reserve(space->new_lease(), keys, 0, soon());
  ASSERT_TRUE(slots.has_value());
  const LeaseId lease = space->new_lease();
  const auto own = space->reserve(lease, {}, keys.size(), soon());
  ASSERT_TRUE(own.has_value());
  for (std::size_t i = 0; i < keys.size(); ++i) fill((*own)[i], keys[i]);
  space->seal(lease, seal_blocks(*space, tokens, keys, *own));
  space.reset();
  EXPECT_TRUE(stats_become("leases", 0));
  const auto again = client->open_space(descriptor());
  const auto match = again->match(keys, tokens, soon());
  ASSERT_TRUE(match.has_value());
  EXPECT_EQ(match->matched_blocks, keys.size());
}

TEST_F(SpaceTest, ManyThreadsMayCallAtOnce) {
  start_daemon();
  const auto client = connected_client();
  const auto space = client->open_space(descriptor());
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 10; ++round) {
        const auto tokens = prompt(4, 1000 * (t + 1) + round);
        store(*space, tokens);
        const auto keys = keys_of(*space, tokens);
        const LeaseId lease = space->new_lease();
        const auto blocks = space->acquire(lease, keys, {}, soon());
        if (blocks && blocks->size() == keys.size() && holds((*blocks)[3].slot, keys[3])) ++right;
        space->release(lease);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 40);
}

TEST_F(SpaceTest, OperatorsSeeBlocksPageByPageAndSpaces) {
  start_daemon();
  const auto client = connected_client();
  const auto space = client->open_space(descriptor());
  const auto tokens = prompt(7);
  store(*space, tokens);
  const auto daemon = OperatorClient::connect(socket_path());
  ASSERT_TRUE(daemon.has_value());
  std::vector<BlockKey> seen;
  std::optional<BlockKey> from;
  do {
    const auto page = (*daemon)->list_blocks(from, 3, soon());
    ASSERT_TRUE(page.has_value()) << page.error().message();
    ASSERT_LE(page->blocks.size(), 3u);
    for (const BlockListing& block : page->blocks) {
      seen.push_back(block.key);
      EXPECT_EQ(block.space, space->digest());
      EXPECT_EQ(block.bytes, block_bytes);
      EXPECT_EQ(derive_block_key(block.parent, block.tokens), block.key);
      EXPECT_TRUE(block.tiers[static_cast<std::size_t>(Tier::device)]);
    }
    from = page->next;
  } while (from);
  auto keys = keys_of(*space, tokens);
  std::ranges::sort(keys);
  EXPECT_EQ(seen, keys);
  const auto spaces = (*daemon)->list_spaces(soon());
  ASSERT_TRUE(spaces.has_value());
  EXPECT_EQ(*spaces, std::vector{descriptor()});
}

}  // namespace
}  // namespace terrace::client
