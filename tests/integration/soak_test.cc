// Workers that are killed at random, an operator, and a daemon that is stopped and killed now and
// then: whatever happens, every block that is got is right, and in the end nothing is left behind.
//
// TERRACE_SOAK_SECONDS and TERRACE_SOAK_SEED change how long it goes on and what happens.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "client/operator.h"
#include "tests/integration/programs.h"
#include "tests/integration/soak_prompts.h"

namespace terrace::integration {
namespace {

using Clock = std::chrono::steady_clock;
using test_support::wait_until;

// How long it goes on, and what the daemon's memory may grow by after its warm-up while it serves
// the same load. A sanitizer's allocator takes several times as much, and looks for leaks of its
// own.
#if defined(__SANITIZE_ADDRESS__)
constexpr unsigned default_seconds = 20;
constexpr std::uint64_t growth_limit_bytes = 512ull << 20;
#else
constexpr unsigned default_seconds = 4;
constexpr std::uint64_t growth_limit_bytes = 32ull << 20;
#endif
constexpr std::size_t worker_count = 3;
constexpr std::chrono::seconds call_limit{60};
constexpr std::chrono::milliseconds pause_between_events{40};

client::Deadline call_deadline() { return client::Deadline::clock::now() + call_limit; }

unsigned from_environment(const char* name, unsigned otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : otherwise;
}

// The sanitizer keeps freed memory for a while, which is no growth of ours.
std::map<std::string, std::string> sanitizer_environment() {
  const char* const set = std::getenv("ASAN_OPTIONS");
  return {{"ASAN_OPTIONS", std::string(set != nullptr ? set : "") + ":quarantine_size_mb=4"}};
}

class Soak : public ::testing::Test {
 protected:
  Soak()
      : seconds_(from_environment("TERRACE_SOAK_SECONDS", default_seconds)),
        seed_(from_environment("TERRACE_SOAK_SEED", std::random_device()())),
        random_(seed_),
        daemon_({.program = program("terraced"),
                 .directory = directory_.path(),
                 .settings = {"arena.slab=1MiB", "device.capacity=24MiB", "disk.capacity=64MiB",
                              "device.overlap=1GiB"},
                 .environment = sanitizer_environment()}) {
    std::cout << "TERRACE_SOAK_SEED=" << seed_ << " TERRACE_SOAK_SECONDS=" << seconds_ << std::endl;
  }

  // Descriptors of the daemon that come and go with its clients.
  std::size_t client_descriptors() const {
    std::size_t count = 0;
    std::error_code gone;
    for (const auto& entry : std::filesystem::directory_iterator(
             "/proc/" + std::to_string(daemon_.pid()) + "/fd", gone)) {
      const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
      count += target.starts_with("socket:") || target.starts_with("/memfd:") ||
               target == "anon_inode:[pidfd]";
    }
    return count;
  }

  std::uint64_t daemon_bytes() const {
    std::ifstream status("/proc/" + std::to_string(daemon_.pid()) + "/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("VmRSS:")) return std::stoull(line.substr(6)) << 10;
    return 0;
  }

  nlohmann::json stats() const {
    const auto text = client::fetch_stats_json(daemon_.socket_path(), call_deadline());
    EXPECT_TRUE(text.has_value()) << text.error().message();
    return nlohmann::json::parse(text.value_or("{}"), nullptr, false);
  }

  void start_worker(std::size_t index) {
    workers_[index] = std::make_unique<Process>(
        std::vector<std::string>{program("soak_worker"), daemon_.socket_path(),
                                 std::to_string(random_() % 1'000'000)},
        ProcessOptions{.input = "", .environment = {}});
  }

  // Nobody but us ends a worker.
  void kill_worker(std::size_t index) {
    ASSERT_TRUE(workers_[index]->running()) << workers_[index]->errors();
    workers_[index]->signal(SIGKILL);
    workers_[index]->wait(call_limit);
    count_output(*workers_[index]);
    ++kills_;
  }

  void count_output(const Process& worker) {
    std::istringstream lines(worker.output());
    for (std::size_t got; lines >> got;) got_blocks_ += got, ++prompts_;
  }

  // A prefix's end, as an operator names it.
  std::string random_key() {
    const auto tokens = soak_prompt(random_() % soak_prompts);
    const auto keys = derive_block_keys(soak_space().digest(), tokens, soak_block_tokens);
    return keys[random_() % keys.size()].hex();
  }

  // The verbs may be refused (there is no such block now, say), but not fail otherwise.
  void run_operator_verb() {
    const std::array<std::vector<std::string>, 5> verbs = {{
        {"evict", "--yes", random_key()},
        {"pin", "--ttl", "1s", random_key()},
        {"warm", "--hottest", "5"},
        {"ls", "--json"},
        {"stats"},
    }};
    std::vector<std::string> arguments = verbs[random_() % verbs.size()];
    const std::string verb = arguments[0];
    arguments.insert(arguments.begin(), {"--socket", daemon_.socket_path()});
    const ProcessResult result = run_program("terrace", arguments);
    // 4: the block has gone meanwhile.
    ASSERT_TRUE(result.status == 0 || result.status == 1 || result.status == 4)
        << verb << ": " << result.errors;
    ++verbs_done_[verb + (result.status == 0 ? "" : " (refused)")];
  }

  void restart_daemon() {
    if (random_() % 2 == 0) {
      ASSERT_EQ(daemon_.stop(), 0) << daemon_.log();
    } else {
      daemon_.kill();
    }
    const Status started = daemon_.start();
    ASSERT_TRUE(started.ok()) << started.message();
    ++restarts_;
  }

  // Lets things happen until then.
  void go_on_until(Clock::time_point end, bool with_restarts) {
    while (Clock::now() < end && !HasFatalFailure()) {
      std::this_thread::sleep_for(pause_between_events);
      const unsigned dice = static_cast<unsigned>(random_() % 100);
      if (dice < 15) {
        const std::size_t index = random_() % worker_count;
        kill_worker(index);
        start_worker(index);
      } else if (dice < 30) {
        run_operator_verb();
      } else if (dice < 33 && with_restarts) {
        restart_daemon();
      }
    }
  }

  TempDir directory_;
  const unsigned seconds_, seed_;
  std::minstd_rand random_;
  test_support::DaemonProcess daemon_;
  std::array<std::unique_ptr<Process>, worker_count> workers_;
  std::size_t kills_ = 0, restarts_ = 0, prompts_ = 0, got_blocks_ = 0;
  std::map<std::string, std::size_t> verbs_done_;
};

TEST_F(Soak, WorkersKilledAtRandomLeaveNothingBehind) {
  const auto begin = Clock::now();
  const auto at = [&](double part) {
    return begin + std::chrono::duration_cast<Clock::duration>(
                       std::chrono::duration<double>(part * seconds_));
  };
  Status started = daemon_.start();
  ASSERT_TRUE(started.ok()) << started.message();
  ASSERT_TRUE(wait_until([&] { return stats().at("connections") == 1; }));
  // The socket that listens, the arena, and such.
  const std::size_t idle_descriptors = client_descriptors();
  for (std::size_t i = 0; i < worker_count; ++i) start_worker(i);
  ASSERT_NO_FATAL_FAILURE(go_on_until(at(0.3), true));

  // One daemon from here on: its memory and what it holds open are looked at.
  ASSERT_EQ(daemon_.stop(), 0) << daemon_.log();
  started = daemon_.start();
  ASSERT_TRUE(started.ok()) << started.message();
  ASSERT_NO_FATAL_FAILURE(go_on_until(at(0.6), false));
  const std::uint64_t warm_bytes = daemon_bytes();
  ASSERT_NO_FATAL_FAILURE(go_on_until(at(1), false));
  const std::uint64_t end_bytes = daemon_bytes();

  for (std::size_t i = 0; i < worker_count; ++i) ASSERT_NO_FATAL_FAILURE(kill_worker(i));
  nlohmann::json left;
  EXPECT_TRUE(wait_until([&] {
    left = stats();
    return left.at("sessions") == 0 && left.at("leases") == 0 && left.at("reserved_slots") == 0 &&
           left.at("quarantined_slots") == 0 && left.at("pending_blocks") == 0 &&
           left.at("waiting_acquires") == 0 && left.at("connections") == 1;
  })) << left;
  for (const auto& [tier, figures] : left.at("tiers").items())
    EXPECT_EQ(figures.value("corruptions", 0), 0) << tier << ": " << figures;
  EXPECT_LT(end_bytes, warm_bytes + growth_limit_bytes);
  EXPECT_TRUE(wait_until([&] { return client_descriptors() <= idle_descriptors; }))
      << client_descriptors() << " descriptors, " << idle_descriptors << " without a client";
  EXPECT_EQ(daemon_.stop(), 0) << daemon_.log();

  std::cout << kills_ << " workers killed, daemon restarted " << restarts_ + 1 << " times, "
            << prompts_ << " prompts, " << got_blocks_ << " blocks got and right; memory "
            << (warm_bytes >> 20) << " MiB after warm-up, " << (end_bytes >> 20)
            << " MiB at the end\n";
  for (const auto& [verb, count] : verbs_done_)
    std::cout << "terrace " << verb << ": " << count << "\n";
  EXPECT_GT(got_blocks_, 0u);
}

}  // namespace
}  // namespace terrace::integration
