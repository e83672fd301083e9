// put and get over a real socket: engines with KV memory of their own, with and without shared
// memory.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/client/daemon_fixture.h"
#include "tests/support/process.h"

namespace terrace::client {
namespace {

class TransferTest : public DaemonFixture, public ::testing::WithParamInterface<PayloadPath> {
 protected:
  std::unique_ptr<Client> start_transfer_client(std::uint64_t staging_bytes = 1 << 20) {
    ClientOptions options;
    options.socket_path = socket_path();
    options.client_name = "engine";
    options.payload = GetParam();
    options.staging_bytes = staging_bytes;
    return Client::start(std::move(options));
  }
  std::unique_ptr<Client> transfer_client(std::uint64_t staging_bytes = 1 << 20) {
    auto client = start_transfer_client(staging_bytes);
    const Status status = client->wait_connected(soon());
    EXPECT_TRUE(status.ok()) << status.message();
    return client;
  }

  // The KV memory of an engine: a prompt's blocks, whose bytes tell their keys.
  struct Memory {
    std::vector<std::byte> bytes;
    std::vector<std::byte*> blocks;
    explicit Memory(std::size_t count) : bytes(count * block_bytes + 1) {
      // At odd addresses: an engine's memory is where it is.
      for (std::size_t i = 0; i < count; ++i) blocks.push_back(bytes.data() + 1 + i * block_bytes);
    }
    Slot slot(std::size_t i) const { return {blocks[i], 0, nullptr}; }
  };
  static Memory computed(std::span<const BlockKey> keys) {
    Memory memory(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) fill(memory.slot(i), keys[i]);
    return memory;
  }

  static std::vector<PutOutcome> put(Space& space, std::span<const Token> tokens) {
    const auto keys = keys_of(space, tokens);
    const Memory memory = computed(keys);
    const std::vector<const std::byte*> blocks(memory.blocks.begin(), memory.blocks.end());
    const auto outcomes = space.put(space.digest(), tokens, blocks, soon());
    EXPECT_TRUE(outcomes.has_value()) << outcomes.error().message();
    return outcomes.value_or(std::vector<PutOutcome>());
  }
  static bool stores(Space& space, std::span<const Token> tokens) {
    const auto outcomes = put(space, tokens);
    return !outcomes.empty() && std::ranges::all_of(outcomes, [](PutOutcome outcome) {
      return outcome == PutOutcome::stored;
    });
  }
  // The tiers of what came, which is right.
  static std::vector<Tier> get(Space& space, std::span<const Token> tokens) {
    const auto keys = keys_of(space, tokens);
    Memory memory(keys.size());
    const auto tiers = space.get(keys, memory.blocks, {}, soon());
    EXPECT_TRUE(tiers.has_value()) << tiers.error().message();
    if (!tiers) return {};
    for (std::size_t i = 0; i < tiers->size(); ++i)
      EXPECT_TRUE(holds(memory.slot(i), keys[i])) << "wrong bytes in block " << i;
    return *tiers;
  }
  // Until all of it comes: a get never waits for room, and what is being copied down makes none.
  static bool comes_whole(Space& space, std::span<const Token> tokens, std::vector<Tier>& tiers) {
    return test_support::wait_until(
        [&] {
          const auto got = get(space, tokens);
          tiers.insert(tiers.end(), got.begin(), got.end());
          return got.size() == tokens.size() / block_tokens;
        },
        patience);
  }
  // Until all of it is there: neither does a put.
  static bool becomes_stored(Space& space, std::span<const Token> tokens) {
    return test_support::wait_until(
        [&] {
          return std::ranges::all_of(put(space, tokens), [](PutOutcome outcome) {
            return outcome == PutOutcome::stored || outcome == PutOutcome::present;
          });
        },
        patience);
  }
  void expect_nothing_held() {
    EXPECT_TRUE(stats_become("leases", 0));
    EXPECT_EQ(stats().at("reserved_slots"), 0);
  }
};

INSTANTIATE_TEST_SUITE_P(Paths, TransferTest,
                         ::testing::Values(PayloadPath::staging, PayloadPath::stream),
                         [](const auto& instance) {
                           return instance.param == PayloadPath::staging ? "Staging" : "Stream";
                         });

// Far more than the region holds at a time, and what comes back is what was put: out of the device,
// the host, the disk and after a restart, for a worker in the arena, too.
TEST_P(TransferTest, WhatWasPutComesBackFromEveryTier) {
  const std::vector<std::string> settings = {"device.capacity=\"4MiB\"", "arena.slab=\"1MiB\"",
                                             "host.capacity=\"8MiB\"", "host.write=\"behind\""};
  start_daemon(settings);
  const auto first = prompt(40), second = prompt(40, 10'000);
  std::vector<Tier> seen;
  {
    const auto client = transfer_client();
    const auto space = client->open_space(descriptor());
    EXPECT_TRUE(get(*space, first).empty());
    EXPECT_TRUE(stores(*space, first));
    EXPECT_EQ(put(*space, first), std::vector(40, PutOutcome::present));
    EXPECT_EQ(get(*space, first), std::vector(40, Tier::device));
    const auto match = space->match(keys_of(*space, first), first, soon());
    ASSERT_TRUE(match.has_value());
    EXPECT_EQ(match->matched_blocks, 40u);
    // A device of 64 blocks: some of the first ones leave it, once the host has them.
    EXPECT_TRUE(test_support::wait_until(
        [&] { return stats().at("tiers").at("host").at("blocks") == 40; }, patience));
    EXPECT_TRUE(becomes_stored(*space, second));
    EXPECT_TRUE(comes_whole(*space, first, seen));
    expect_nothing_held();
  }
  EXPECT_NE(std::ranges::count(seen, Tier::host), 0);
  ASSERT_EQ(daemon().stop(), 0);
  start_daemon(settings);
  const auto client = transfer_client();
  const auto space = client->open_space(descriptor());
  EXPECT_EQ(get(*space, first), std::vector(40, Tier::disk));
  EXPECT_TRUE(comes_whole(*space, second, seen));
  const auto worker = connected_client();
  const auto arena = worker->open_space(descriptor());
  const auto keys = keys_of(*arena, second);
  EXPECT_TRUE(test_support::wait_until(
      [&] {
        const LeaseId lease = arena->new_lease();
        const auto blocks = arena->acquire(lease, keys, {}, soon());
        for (std::size_t i = 0; blocks && i < blocks->size(); ++i)
          EXPECT_TRUE(holds((*blocks)[i].slot, keys[i])) << i;
        arena->release(lease);
        return blocks && blocks->size() == keys.size();
      },
      patience));
}

TEST_P(TransferTest, WhatAWorkerSealedAnEngineGets) {
  start_daemon();
  const auto worker = connected_client();
  const auto tokens = prompt(3);
  store(*worker->open_space(descriptor()), tokens);
  const auto client = transfer_client();
  const auto space = client->open_space(descriptor());
  EXPECT_EQ(get(*space, tokens), std::vector(3, Tier::device));
  const auto more = prompt(4);
  const auto keys = keys_of(*space, more);
  const Memory memory = computed(std::span(keys).last(1));
  const std::vector<const std::byte*> blocks(memory.blocks.begin(), memory.blocks.end());
  const auto outcome = space->put(keys[2], std::span(more).last(block_tokens), blocks, soon());
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(*outcome, std::vector{PutOutcome::stored});
  EXPECT_EQ(get(*space, more).size(), 4u);
}

TEST_P(TransferTest, ARecordThatIsCorruptIsAMiss) {
  const std::vector<std::string> settings = {"disk.codec=\"raw\""};
  start_daemon(settings);
  const auto tokens = prompt(4);
  {
    const auto client = transfer_client();
    EXPECT_TRUE(stores(*client->open_space(descriptor()), tokens));
  }
  ASSERT_EQ(daemon().stop(), 0);
  // A byte in the midst of each record.
  std::size_t spoilt = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory().path())) {
    if (!entry.is_regular_file() || entry.file_size() < block_bytes ||
        entry.path().filename().string().find("data") == std::string::npos)
      continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    for (std::uint64_t at = block_bytes / 2; at < entry.file_size(); at += block_bytes / 2) {
      file.seekp(static_cast<std::streamoff>(at));
      file.put('x');
      ++spoilt;
    }
  }
  ASSERT_GT(spoilt, 0u);
  start_daemon(settings);
  const auto client = transfer_client();
  const auto space = client->open_space(descriptor());
  EXPECT_TRUE(get(*space, tokens).empty());
  // It is answered when the first is known to be bad; all of them were asked for.
  EXPECT_TRUE(test_support::wait_until(
      [&] { return stats().at("tiers").at("disk").at("blocks") == 0; }, patience));
  EXPECT_TRUE(stores(*space, tokens));
  EXPECT_EQ(get(*space, tokens).size(), 4u);
  expect_nothing_held();
}

TEST_P(TransferTest, WithoutADaemonItFailsAtOnceAndComesBackByItself) {
  const auto client = start_transfer_client();
  const auto space = client->open_space(descriptor());
  EXPECT_FALSE(client->wait_first_attempt(soon()).ok());
  const auto tokens = prompt(2);
  const auto keys = keys_of(*space, tokens);
  const Memory memory = computed(keys);
  const std::vector<const std::byte*> blocks(memory.blocks.begin(), memory.blocks.end());
  EXPECT_EQ(space->put(space->digest(), tokens, blocks, soon()).error().code(),
            StatusCode::unavailable);
  EXPECT_EQ(space->get(keys, memory.blocks, {}, soon()).error().code(), StatusCode::unavailable);
  start_daemon();
  ASSERT_TRUE(client->wait_connected(soon()).ok());
  EXPECT_TRUE(stores(*space, tokens));
  daemon().kill();
  EXPECT_TRUE(test_support::wait_until([&] { return !client->connected(); }));
  EXPECT_FALSE(space->get(keys, memory.blocks, {}, soon()).has_value());
  start_daemon();
  ASSERT_TRUE(client->wait_connected(soon()).ok());
  get(*space, tokens);
  EXPECT_EQ(put(*space, tokens).size(), 2u);
  EXPECT_EQ(get(*space, tokens).size(), 2u);
}

TEST_P(TransferTest, TheDaemonsLimitOfStagingHolds) {
  start_daemon({"limits.staging_per_session=\"192KiB\""});
  const auto client = transfer_client(8 << 20);
  const auto space = client->open_space(descriptor());
  const auto tokens = prompt(10);
  EXPECT_TRUE(stores(*space, tokens));  // three blocks at a time
  EXPECT_EQ(get(*space, tokens).size(), 10u);
  SpaceDescriptor larger = descriptor();
  larger.block_bytes = 256 << 10;
  const auto too_large = client->open_space(larger);
  const std::vector<std::byte> memory(larger.block_bytes);
  const std::byte* const block = memory.data();
  EXPECT_EQ(too_large->put(too_large->digest(), prompt(1), {&block, 1}, soon()).error().code(),
            StatusCode::invalid_argument);
  EXPECT_EQ(space->acquire(space->new_lease(), keys_of(*space, tokens), {}, soon()).error().code(),
            StatusCode::failed_precondition);
  const auto worker = connected_client();
  EXPECT_EQ(worker->open_space(descriptor())
                ->put(space->digest(), prompt(1), {&block, 1}, soon())
                .error()
                .code(),
            StatusCode::failed_precondition);
}

TEST_P(TransferTest, WhereStagingIsOffClientsAreToldSo) {
  start_daemon({"limits.staging_per_session=0"});
  const auto client = start_transfer_client();
  const Status status = client->wait_first_attempt(soon());
  EXPECT_EQ(status.code(), StatusCode::unavailable);
  EXPECT_NE(status.message().find("staging_per_session"), std::string::npos) << status.message();
}

TEST_P(TransferTest, ManyThreadsShareASmallRegion) {
  start_daemon();
  const auto client = transfer_client(256 << 10);
  const auto space = client->open_space(descriptor());
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 5; ++round) {
        const auto tokens = prompt(6, 10'000 * (t + 1) + 1'000 * round);
        if (stores(*space, tokens) && get(*space, tokens).size() == 6) ++right;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 20);
  expect_nothing_held();
}

TEST_P(TransferTest, AGetWaitsForWhatAWorkerComputes) {
  start_daemon();
  const auto worker = connected_client();
  const auto arena = worker->open_space(descriptor());
  const auto tokens = prompt(2);
  const auto keys = keys_of(*arena, tokens);
  const LeaseId lease = arena->new_lease();
  const auto slots = arena->reserve(lease, keys, 0, soon());
  ASSERT_TRUE(slots.has_value());
  const auto client = transfer_client();
  const auto space = client->open_space(descriptor());
  Memory memory(2);
  std::thread sealer([&] {
    EXPECT_TRUE(stats_become("waiting_acquires", 1));
    for (std::size_t i = 0; i < 2; ++i) fill((*slots)[i], keys[i]);
    arena->seal(lease, seal_blocks(*arena, tokens, keys, *slots));
    arena->release(lease);
  });
  const auto got = space->get(keys, memory.blocks, {.wait = std::chrono::seconds(50)}, soon());
  sealer.join();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->size(), 2u);
  EXPECT_TRUE(holds(memory.slot(1), keys[1]));
}

// One waits for a key that a session of this process computes, and is killed.
TEST_P(TransferTest, AKilledClientLeavesNothingHeld) {
  start_daemon();
  const auto worker = connected_client();
  const auto space = worker->open_space(descriptor());  // that of the holder
  const auto tokens = prompt(2);
  store(*space, std::span(tokens).first(block_tokens));
  const auto keys = keys_of(*space, tokens);
  const LeaseId lease = space->new_lease();
  ASSERT_TRUE(space->reserve(lease, std::span(keys).last(1), 0, soon()).has_value());
  test_support::Process holder({test_support::program_directory() + "/lease_holder", socket_path(),
                                "--get", keys[0].hex() + keys[1].hex()});
  EXPECT_TRUE(stats_become("waiting_acquires", 1));
  EXPECT_EQ(stats().at("leases"), 2);
  holder.signal(SIGKILL);
  EXPECT_TRUE(stats_become("leases", 1));
  EXPECT_EQ(stats().at("waiting_acquires"), 0);
  space->release(lease);
  expect_nothing_held();
}

}  // namespace
}  // namespace terrace::client
