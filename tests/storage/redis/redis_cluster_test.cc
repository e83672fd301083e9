// A RedisStore on a real cluster of three masters and three replicas.
#include <time.h>

#include <algorithm>
#include <cstring>

#include "storage/redis/keys.h"
#include "storage/redis/slot_hash.h"
#include "tests/storage/redis/log_counter.h"
#include "tests/storage/redis/remote_harness.h"

namespace terrace::storage {
namespace {

using test_support::RedisCluster;
using test_support::RedisServer;
using test_support::wait_until;

class RedisClusterTest : public ::testing::Test {
 protected:
  static std::uint16_t slot(const TestBlock& block) { return redis::slot_of(value_name(block)); }
  // The index of the master that the cluster began with for this block.
  static std::size_t master_of(const TestBlock& block) { return master_of(slot(block)); }
  static std::size_t master_of(std::uint16_t slot) {
    return std::min<std::size_t>(slot / (redis::slot_count / RedisCluster::masters),
                                 RedisCluster::masters - 1);
  }
  void write_all() {
    std::vector<Ticket> tickets;
    for (const TestBlock& block : blocks_) tickets.push_back(harness_.start_write(block));
    for (const Ticket ticket : tickets) ASSERT_EQ(harness_.wait(ticket).status.to_string(), "ok");
  }
  // Reads all blocks at once; how many were served. What is not served must be unavailable.
  std::size_t read_all() {
    std::vector<AlignedBuffer> destinations(blocks_.size());
    std::vector<Ticket> tickets;
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      tickets.push_back(harness_.start_read(blocks_[i], destinations[i]));
    std::size_t served = 0;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const RemoteCompletion completion = harness_.wait(tickets[i]);
      if (completion.status.ok()) {
        ++served;
        EXPECT_EQ(
            std::memcmp(destinations[i].data(), blocks_[i].payload().data(), blocks_[i].bytes), 0);
      } else {
        EXPECT_EQ(completion.status.code(), StatusCode::unavailable)
            << completion.status.to_string();
        why_not_ = completion.status.to_string();
      }
    }
    return served;
  }

  // How often a server has carried a command out.
  static std::int64_t calls(const RedisServer& server, const std::string& command) {
    const std::string all = server.command({"INFO", "commandstats"}).text;
    const std::string name = "cmdstat_" + command + ":calls=";
    const std::size_t at = all.find(name);
    return at == std::string::npos ? 0 : std::stoll(all.substr(at + name.size()));
  }

  std::string why_not_;  // why read_all() was last told no
  RedisCluster cluster_;
  RemoteHarness harness_{options_for(cluster_)};
  const std::vector<TestBlock> blocks_ = chain(60, 32 * kib);
};

TEST_F(RedisClusterTest, SpreadsBlocksOverItsMastersAndFindsThemAgain) {
  write_all();
  EXPECT_EQ(read_all(), blocks_.size()) << why_not_;
  EXPECT_EQ(harness_.lookup(blocks_).present, blocks_.size());
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < RedisCluster::masters; ++i) {
    const std::int64_t keys = cluster_.node(i).command({"DBSIZE"}).integer();
    EXPECT_GT(keys, 5) << i;
    sum += keys;
  }
  EXPECT_EQ(sum, static_cast<std::int64_t>(blocks_.size()));
  EXPECT_EQ(harness_.store().usage().redirections, 0u) << "the map says where each is";
  harness_.store().erase(blocks_[0].space, std::span(&blocks_[7].key, 1));
  EXPECT_TRUE(wait_until([&] { return harness_.lookup(blocks_).present == 7; }));
}

TEST_F(RedisClusterTest, ASpaceIsErasedAtEveryMaster) {
  write_all();
  RemoteHarness other(options_for(cluster_));
  ASSERT_EQ(other.lookup(blocks_).present, blocks_.size());  // it knows the map
  EXPECT_EQ(other.erase_space(blocks_[0].space).status.to_string(), "ok");
  for (std::size_t i = 0; i < RedisCluster::masters; ++i)
    EXPECT_EQ(cluster_.node(i).command({"DBSIZE"}).text, "0") << i;
}

TEST_F(RedisClusterTest, FollowsSlotsThatMoveUnderLoad) {
  write_all();
  ASSERT_EQ(read_all(), blocks_.size());
  for (std::size_t i = 0; i < 12; ++i) {
    const std::size_t from = master_of(blocks_[i]), to = (from + 1) % RedisCluster::masters;
    const std::string keys =
        cluster_.node(from)
            .command({"CLUSTER", "COUNTKEYSINSLOT", std::to_string(slot(blocks_[i]))})
            .text;
    if (keys == "0") continue;  // it has moved with another block of its slot
    cluster_.move_slot(slot(blocks_[i]), from, to, [this, i] {
      // ASK: the key is at the new master already, the slot is not.
      EXPECT_EQ(read_all(), blocks_.size()) << why_not_;
      EXPECT_EQ(harness_.lookup(blocks_).present, blocks_.size());
      EXPECT_EQ(harness_.write(blocks_[i]).status.to_string(), "ok");
    });
    // MOVED, until the map is learned anew.
    EXPECT_EQ(read_all(), blocks_.size()) << why_not_;
    EXPECT_EQ(harness_.lookup(blocks_).present, blocks_.size());
  }
  EXPECT_GE(harness_.store().usage().redirections, 12u);
  EXPECT_EQ(harness_.store().usage().last_failure, "");
  // Nothing was left behind or written twice.
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < RedisCluster::masters; ++i)
    sum += cluster_.node(i).command({"DBSIZE"}).integer();
  EXPECT_EQ(sum, static_cast<std::int64_t>(blocks_.size()));
}

TEST_F(RedisClusterTest, ErasesASpaceWhileASlotOfItMoves) {
  write_all();
  const std::size_t from = master_of(blocks_[0]), to = (from + 1) % RedisCluster::masters;
  // The key is at the new master already, which says MOVED, and the old one ASK.
  cluster_.move_slot(slot(blocks_[0]), from, to, [this] {
    EXPECT_EQ(harness_.erase_space(blocks_[0].space).status.to_string(), "ok");
  });
  for (std::size_t i = 0; i < RedisCluster::masters; ++i)
    EXPECT_EQ(cluster_.node(i).command({"DBSIZE"}).text, "0") << i;
}

TEST_F(RedisClusterTest, AMasterThatDiesIsReplacedByItsReplica) {
  write_all();
  for (std::size_t i = 0; i < RedisCluster::masters; ++i) {
    auto client = cluster_.node(i).client();
    // The replica has what the master has.
    ASSERT_TRUE(wait_until([&] {
      return cluster_.node(i + RedisCluster::masters).command({"DBSIZE"}).text ==
             client.command({"DBSIZE"}).text;
    }));
  }
  cluster_.node(1).kill();  // also the first of the nodes that the store was told of
  // Meanwhile: served or unavailable, and the whole comes back by itself.
  EXPECT_TRUE(wait_until([&] { return read_all() == blocks_.size(); }));
  EXPECT_EQ(harness_.lookup(blocks_).present, blocks_.size());
  EXPECT_NE(harness_.store().usage().last_failure, "");
  EXPECT_TRUE(harness_.store().available());
  for (const TestBlock& block : blocks_) EXPECT_EQ(harness_.write(block).status.to_string(), "ok");
}

TEST_F(RedisClusterTest, AMasterWithoutReplacementHidesOnlyItsOwnBlocks) {
  for (std::size_t i = 0; i < RedisCluster::masters; ++i)
    cluster_.node(i).command({"CONFIG", "SET", "cluster-require-full-coverage", "no"});
  write_all();
  cluster_.node(0 + RedisCluster::masters).kill();
  cluster_.node(0).kill();
  const auto others = static_cast<std::size_t>(
      std::ranges::count_if(blocks_, [](const TestBlock& block) { return master_of(block) != 0; }));
  const auto first = static_cast<std::uint32_t>(
      std::ranges::find_if(blocks_, [](const TestBlock& block) { return master_of(block) == 0; }) -
      blocks_.begin());
  EXPECT_TRUE(wait_until([&] { return read_all() == others; }));
  EXPECT_TRUE(harness_.store().available());
  const RemoteCompletion found = harness_.lookup(blocks_);
  EXPECT_EQ(found.present, first);
  EXPECT_EQ(found.status.ok(), first > 0);
  cluster_.node(0).start();
}

TEST_F(RedisClusterTest, AClusterWhoseMastersAllAreNewIsFoundAgain) {
  write_all();
  for (std::size_t i = 0; i < RedisCluster::masters; ++i) {
    RedisServer& replica = cluster_.node(i + RedisCluster::masters);
    ASSERT_TRUE(wait_until([&] {
      return replica.command({"DBSIZE"}).text == cluster_.node(i).command({"DBSIZE"}).text;
    }));
  }
  // What was a replica once, and so forgotten, is who knows.
  for (std::size_t i = 0; i < RedisCluster::masters; ++i) cluster_.node(i).kill();
  ASSERT_TRUE(harness_.wait_available(false));
  for (std::size_t i = 0; i < RedisCluster::masters; ++i)
    ASSERT_TRUE(
        cluster_.node(i + RedisCluster::masters).command({"CLUSTER", "FAILOVER", "TAKEOVER"}).ok());
  EXPECT_TRUE(wait_until([&] { return read_all() == blocks_.size(); })) << why_not_;
  EXPECT_TRUE(harness_.store().available());
}

TEST_F(RedisClusterTest, ToWhoTakesANodeForAServerOfItsOwnItSaysSo) {
  // A node that would answer a probe of just any name.
  const auto probed = redis::slot_of(redis::KeyNames("terrace").probe(0));
  const std::size_t asked = master_of(probed);
  const TestBlock& foreign =
      *std::ranges::find_if(blocks_, [&](const TestBlock& one) { return master_of(one) != asked; });
  const LogCounter openings("not asked until");
  RemoteHarness harness(options_for(cluster_.node(asked).port()));
  const auto refusals = [&] {
    return cluster_.node(asked).number({"INFO", "stats"}, "total_error_replies").value_or(0);
  };
  const std::int64_t before = refusals();
  for (const Status& status : {harness.read(foreign).status, harness.write(foreign).status}) {
    EXPECT_EQ(status.code(), StatusCode::unavailable) << status.to_string();
  }
  EXPECT_TRUE(harness.wait_available(false));
  const auto cpu_ns = [] {
    timespec spent{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return spent.tv_sec * 1'000'000'000 + spent.tv_nsec;
  };
  const std::int64_t begun_ns = SystemClock().monotonic_ns(), spent_ns = cpu_ns();
  EXPECT_TRUE(wait_until([&] { return refusals() >= before + 5; }));
  EXPECT_LT((cpu_ns() - spent_ns) * 2, SystemClock().monotonic_ns() - begun_ns) << "it spins";
  const RemoteUsage usage = harness.store().usage();
  EXPECT_NE(usage.last_failure.find("redis.mode"), std::string::npos) << usage.last_failure;
  EXPECT_EQ(usage.redirections, 0u);
  EXPECT_FALSE(harness.store().available());
  EXPECT_EQ(openings.count(), 1u) << "it was said to answer in between";
}

TEST_F(RedisClusterTest, TheMapIsLearnedAnewWithoutBeingToldOfAChange) {
  RedisOptions options = options_for(cluster_);
  options.map_refresh_ms = 50;
  RemoteHarness harness(options);
  ASSERT_EQ(harness.write(blocks_[0]).status.to_string(), "ok");
  const std::size_t from = master_of(blocks_[0]), to = (from + 1) % RedisCluster::masters;
  cluster_.move_slot(slot(blocks_[0]), from, to, [] {});
  const auto maps_told = [this] {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < RedisCluster::masters; ++i)
      sum += calls(cluster_.node(i), "cluster|slots");
    return sum;
  };
  // Who asks for a second has had the first.
  const std::int64_t before = maps_told();
  ASSERT_TRUE(wait_until([&] { return maps_told() >= before + 2; }));
  EXPECT_EQ(harness.read(blocks_[0]).status.to_string(), "ok");
  EXPECT_EQ(harness.store().usage().redirections, 0u);
}

TEST_F(RedisClusterTest, ALostClusterComesBack) {
  write_all();
  for (std::size_t i = 0; i < 2 * RedisCluster::masters; ++i) cluster_.node(i).freeze();
  RedisOptions options = options_for(cluster_);
  ASSERT_TRUE(wait_until([&] {
    harness_.read(blocks_[0], 20);
    harness_.lookup(blocks_, 20);
    return !harness_.store().available();
  }));
  for (std::size_t i = 0; i < 2 * RedisCluster::masters; ++i) cluster_.node(i).thaw();
  EXPECT_TRUE(wait_until([&] { return read_all() == blocks_.size(); }));
}

}  // namespace
}  // namespace terrace::storage
