// A daemon that starts while processes still map the arena of the one before it.
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "tests/client/daemon_fixture.h"

namespace terrace::client {
namespace {

using test_support::Process;
using test_support::wait_until;

constexpr const char* never_both = "device.overlap=0";
constexpr std::uint64_t takeover_arena_bytes = 32ull << 20;

// Mappings of device arenas in a process ("self": this one).
std::size_t arenas_mapped(const std::string& pid = "self") {
  std::ifstream maps("/proc/" + pid + "/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("memfd:terrace-device") != std::string::npos;
  return count;
}

// Which arenas a process maps, by their inodes: no other memory of the machine has them.
std::set<std::string> arena_inodes(const std::string& pid) {
  std::ifstream maps("/proc/" + pid + "/maps");
  std::set<std::string> inodes;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:terrace-") == std::string::npos) continue;
    std::istringstream fields(line);
    std::string range, access, offset, device, inode;
    fields >> range >> access >> offset >> device >> inode;
    inodes.insert(device + " " + inode);
  }
  return inodes;
}

// Processes of the machine that map any of them.
std::size_t processes_that_map(const std::set<std::string>& arenas) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    for (const std::string& inode : arena_inodes(name))
      if (arenas.contains(inode)) {
        ++count;
        break;
      }
  }
  return count;
}

class TakeoverTest : public DaemonFixture {
 protected:
  std::uint64_t device_bytes() { return stats().at("tiers").at("device").at("capacity_bytes"); }
  bool daemon_has_an_arena() { return arenas_mapped(std::to_string(daemon().pid())) > 0; }

  // A process of its own that holds slots of the daemon's arena.
  std::unique_ptr<Process> start_holder() {
    auto holder = std::make_unique<Process>(std::vector<std::string>{
        test_support::program_directory() + "/lease_holder", socket_path()});
    EXPECT_TRUE(wait_until([&] { return holder->output() == "holding\n"; })) << holder->errors();
    return holder;
  }
};

TEST_F(TakeoverTest, TheNewDaemonWaitsUntilTheLastSlotOfTheOldArenaIsGone) {
  start_daemon({never_both});
  auto client = connected_client();
  const auto space = client->open_space(descriptor());
  const auto tokens = prompt(3);
  const auto keys = keys_of(*space, tokens);
  store(*space, tokens);
  const LeaseId lease = space->new_lease();
  auto held = space->acquire(lease, keys, {}, soon());
  ASSERT_TRUE(held && held->size() == 3);
  ASSERT_EQ(daemon().stop(), 0);
  EXPECT_EQ(arenas_mapped(), 1u);

  start_daemon({never_both});
  // It runs, knows its blocks and answers operators; it only has no device tier.
  EXPECT_EQ(device_bytes(), 0u);
  EXPECT_EQ(stats().at("tiers").at("disk").at("blocks"), 3);
  EXPECT_FALSE(daemon_has_an_arena());
  // The sequence goes on with what it has; new requests are computed and do not wait.
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(holds((*held)[i].slot, keys[i]));
  EXPECT_EQ(space->match(keys, tokens, Deadline::max()).error().code(), StatusCode::unavailable);
  ASSERT_TRUE(wait_until([&] {
    const Status status = client->wait_connected(Deadline::clock::now());
    return status.message().find("earlier daemon's device arena") != std::string::npos;
  }));

  // One slot keeps all of it.
  held->resize(1);
  EXPECT_EQ(arenas_mapped(), 1u);
  EXPECT_EQ(device_bytes(), 0u);
  held->clear();
  EXPECT_EQ(arenas_mapped(), 0u);
  ASSERT_TRUE(client->wait_connected(soon()).ok());
  EXPECT_EQ(device_bytes(), takeover_arena_bytes);
  EXPECT_EQ(arenas_mapped(), 1u);
  auto again = space->acquire(space->new_lease(), keys, {}, soon());
  ASSERT_TRUE(again && again->size() == 3);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(holds((*again)[i].slot, keys[i]));
}

TEST_F(TakeoverTest, AProcessThatHoldsTheOldArenaHoldsTheNewOneUpUntilItEndsAndNoLonger) {
  start_daemon({never_both});
  const auto holder = start_holder();
  daemon().kill();
  start_daemon({never_both});
  auto client = start_client();
  ASSERT_TRUE(wait_until([&] {
    return client->wait_connected(Deadline::clock::now()).code() == StatusCode::unavailable;
  }));
  EXPECT_EQ(device_bytes(), 0u);
  EXPECT_FALSE(daemon_has_an_arena());
  holder->signal(SIGKILL);
  ASSERT_TRUE(client->wait_connected(soon()).ok());
  EXPECT_EQ(device_bytes(), takeover_arena_bytes);
  store(*client->open_space(descriptor()), prompt(2));
}

TEST_F(TakeoverTest, WhereBothMayBeTheNewDaemonServesAtOnceAndTheOldArenaGoesWithItsSlots) {
  start_daemon();
  auto client = connected_client();
  const auto space = client->open_space(descriptor());
  const auto tokens = prompt(2);
  const auto keys = keys_of(*space, tokens);
  store(*space, tokens);
  auto held = space->acquire(space->new_lease(), keys, {}, soon());
  ASSERT_TRUE(held && held->size() == 2);
  daemon().kill();
  start_daemon({"device.overlap=32MiB"});
  ASSERT_TRUE(client->wait_connected(soon()).ok());
  EXPECT_EQ(device_bytes(), takeover_arena_bytes);
  EXPECT_EQ(arenas_mapped(), 2u);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(holds((*held)[i].slot, keys[i]));
  held->clear();
  EXPECT_EQ(arenas_mapped(), 1u);
}

TEST_F(TakeoverTest, ThreeDaemonsInARowCountAllThatIsStillMapped) {
  start_daemon();
  const auto first = start_holder();
  daemon().kill();
  start_daemon({"device.overlap=32MiB"});
  EXPECT_EQ(device_bytes(), takeover_arena_bytes);
  const auto second = start_holder();
  daemon().kill();
  start_daemon({"device.overlap=32MiB"});
  EXPECT_EQ(device_bytes(), 0u);
  first->signal(SIGKILL);
  ASSERT_TRUE(wait_until([&] { return device_bytes() == takeover_arena_bytes; }));
}

// Memory files go with the last process that has them: there is nothing to clean up, and the next
// daemon has its whole tier at once.
TEST_F(TakeoverTest, NoMemoryIsLeftOnceTheDaemonAndItsWorkersWereKilled) {
  start_daemon({never_both, "host.capacity=8MiB"});
  const auto first = start_holder();
  const auto second = start_holder();
  const std::set<std::string> arenas = arena_inodes(std::to_string(daemon().pid()));
  ASSERT_EQ(arenas.size(), 2u);  // of the device and of the host
  EXPECT_EQ(processes_that_map(arenas), 3u);
  daemon().kill();
  EXPECT_EQ(processes_that_map(arenas), 2u);
  for (Process* const worker : {first.get(), second.get()}) {
    worker->signal(SIGKILL);
    ASSERT_TRUE(worker->wait(patience));
  }
  EXPECT_EQ(processes_that_map(arenas), 0u);
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    EXPECT_EQ(entry.path().filename().string().find("terrace"), std::string::npos) << entry.path();

  start_daemon({never_both, "host.capacity=8MiB"});
  EXPECT_EQ(device_bytes(), takeover_arena_bytes);
  std::size_t claims = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory().path()))
    claims += entry.path().filename().string().find(".arena-") != std::string::npos;
  EXPECT_EQ(claims, 1u);
}

}  // namespace
}  // namespace terrace::client
