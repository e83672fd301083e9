// Whatever happens to the daemon, the worker answers, correctly and in bounded time.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "client/operator.h"
#include "tests/integration/worker_fixture.h"

namespace terrace::inference {
namespace {

using FailOpen = WorkerFixture;

// Far above what a request may lose to the cache, far below "it hangs".
constexpr std::chrono::seconds bounded{20};

TEST_F(FailOpen, WithoutADaemonTheWorkerAnswersAndSaysSoOnce) {
  auto reference = load_engine(false);
  auto engine = load_engine(true);
  const auto prompt = random_prompt(100, 1);
  const auto answer = generate(*engine, prompt);
  EXPECT_EQ(answer.token_ids, generate(*reference, prompt).token_ids);
  EXPECT_EQ(answer.hit.cached_tokens, 0u);
  ASSERT_EQ(warnings().size(), 1u);
  EXPECT_NE(warnings()[0].find("no cache"), std::string::npos) << warnings()[0];
}

TEST_F(FailOpen, ADaemonThatComesLaterIsUsed) {
  auto engine = load_engine(true);
  const auto prompt = random_prompt(100, 2);
  const auto before = generate(*engine, prompt);
  const auto daemon = start_daemon();
  ASSERT_TRUE(wait_connected(*engine));
  generate(*engine, prompt);
  engine->flush_cache(patience);
  const auto after = generate(*engine, prompt);
  EXPECT_EQ(after.hit.cached_tokens, 96u);
  EXPECT_EQ(after.token_ids, before.token_ids);
}

TEST_F(FailOpen, ADaemonKilledDuringAnAnswerChangesNothing) {
  auto daemon = start_daemon();
  auto reference = load_engine(false);
  auto engine = load_connected_engine();
  const auto prompt = random_prompt(100, 3);
  const auto expected = generate(*reference, prompt, 100);
  logits_of(*engine, engine->space(), prompt);

  GenerateOptions options;
  options.max_tokens = 100;
  bool killed = false;
  options.on_text = [&](std::string_view) {
    if (!std::exchange(killed, true)) daemon->kill();
  };
  const auto answer = engine->generate(prompt, options);
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(killed);
  EXPECT_EQ(answer->hit.cached_tokens, 96u);
  EXPECT_EQ(answer->token_ids, expected.token_ids);
  EXPECT_TRUE(test_support::wait_until([&] { return !warnings().empty(); }));
  EXPECT_EQ(warnings().size(), 1u);

  daemon = start_daemon();
  ASSERT_TRUE(wait_connected(*engine));
  EXPECT_EQ(generate(*engine, prompt, 100).token_ids, expected.token_ids);
}

// The new daemon may not take its arena while the old one is in use: it waits for the answers that
// use it, and they do not wait for it.
TEST_F(FailOpen, ADaemonThatWaitsForTheOldArenaHoldsNoAnswerUp) {
  const std::vector<std::string> never_both = {"device.capacity=\"64MiB\"", "device.overlap=0"};
  auto daemon = start_daemon(never_both);
  auto reference = load_engine(false);
  auto engine = load_connected_engine();
  const auto prompt = random_prompt(100, 7), other = random_prompt(80, 8);
  const auto expected = generate(*reference, prompt, 100);
  logits_of(*engine, engine->space(), prompt);

  const auto device_bytes = [&]() -> std::uint64_t {
    const auto stats =
        client::fetch_stats_json(socket_path(), client::Deadline::clock::now() + patience);
    EXPECT_TRUE(stats.has_value()) << stats.error().message();
    return nlohmann::json::parse(*stats).at("tiers").at("device").at("capacity_bytes");
  };
  GenerateOptions options;
  options.max_tokens = 100;
  bool replaced = false;
  options.on_text = [&](std::string_view) {
    if (std::exchange(replaced, true)) return;
    EXPECT_EQ(daemon->stop(), 0);
    daemon = start_daemon(never_both);
    EXPECT_EQ(device_bytes(), 0u);
  };
  const auto answer = engine->generate(prompt, options);
  ASSERT_TRUE(answer.has_value());
  ASSERT_TRUE(replaced);
  EXPECT_EQ(answer->hit.cached_tokens, 96u);
  EXPECT_EQ(answer->token_ids, expected.token_ids);

  ASSERT_TRUE(wait_connected(*engine));
  EXPECT_EQ(device_bytes(), 64u << 20);
  const auto again = generate(*engine, prompt, 100);
  EXPECT_EQ(again.hit.cached_tokens, 96u);
  EXPECT_EQ(from_tier(again.hit, Tier::disk), 96u);
  EXPECT_EQ(again.token_ids, expected.token_ids);
}

// The same with a worker that is a process of its own, and stands still meanwhile.
TEST_F(FailOpen, AWorkerProcessThatUsesTheOldArenaKeepsTheNewOneWaiting) {
  const std::vector<std::string> never_both = {"device.capacity=\"64MiB\"", "device.overlap=0"};
  auto daemon = start_daemon(never_both);
  const auto stat = [&](const char* name) -> std::uint64_t {
    const auto stats =
        client::fetch_stats_json(socket_path(), client::Deadline::clock::now() + patience);
    if (!stats) return 0;
    const auto json = nlohmann::json::parse(*stats);
    return json.contains(name) ? json.at(name) : json.at("tiers").at("device").at(name);
  };
  test_support::Process worker({std::string(TERRACE_BIN_DIR) + "/terrace-worker", "generate",
                                "--model", model_path(), "--socket", socket_path(), "--raw",
                                "--prompt", "hello there, and so on and on, one two three four",
                                "--max-tokens", "900", "--threads", "1"});
  ASSERT_TRUE(test_support::wait_until([&] { return stat("leases") > 0; }));
  worker.signal(SIGSTOP);
  ASSERT_TRUE(worker.running()) << worker.errors();
  daemon->kill();
  daemon = start_daemon(never_both);
  EXPECT_EQ(stat("capacity_bytes"), 0u);
  worker.signal(SIGCONT);
  EXPECT_EQ(worker.wait(patience), 0) << worker.errors();
  EXPECT_NE(worker.output(), "");
  EXPECT_TRUE(test_support::wait_until([&] { return stat("capacity_bytes") == 64u << 20; }));
}

TEST_F(FailOpen, AStoppedDaemonCostsABoundedTime) {
  auto daemon = start_daemon();
  auto engine = load_connected_engine();
  const auto prompt = random_prompt(100, 4);
  const auto expected = generate(*engine, prompt, 40);
  engine->flush_cache(patience);

  daemon->signal(SIGSTOP);
  const auto begin = std::chrono::steady_clock::now();
  const auto answer = generate(*engine, prompt, 40);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, bounded);
  EXPECT_EQ(answer.token_ids, expected.token_ids);
  EXPECT_EQ(answer.hit.cached_tokens, 0u);
  EXPECT_TRUE(test_support::wait_until([&] { return !warnings().empty(); }));
  EXPECT_EQ(warnings().size(), 1u);

  daemon->signal(SIGCONT);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::size_t cached = 0;
  while (cached == 0 && std::chrono::steady_clock::now() < deadline)
    cached = generate(*engine, prompt, 2).hit.cached_tokens;
  // Three blocks, and of the one that the answer filled all of the prompt but its last token.
  EXPECT_EQ(cached, 99u);
}

TEST_F(FailOpen, AWorkerStartsBesideAStoppedDaemon) {
  auto daemon = start_daemon();
  daemon->signal(SIGSTOP);
  const auto begin = std::chrono::steady_clock::now();
  auto engine = load_engine(true);
  const auto prompt = random_prompt(64, 5);
  const auto answer = generate(*engine, prompt);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, bounded);
  EXPECT_EQ(answer.token_ids.size(), 12u);
  engine.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, bounded);
}

// Flips a byte in the middle of every data file's used part, then asks again.
TEST_F(FailOpen, CorruptRecordsAreMisses) {
  auto daemon = start_daemon();
  auto engine = load_connected_engine();
  const auto prompt = random_prompt(100, 6);
  const auto plain = logits_of(*engine, nullptr, prompt);
  logits_of(*engine, engine->space(), prompt);
  ASSERT_EQ(daemon->stop(), 0) << daemon->log();

  std::size_t damaged = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(daemon->data_directory())) {
    if (!entry.is_regular_file() || entry.path().extension() == ".sst" ||
        entry.file_size() < (1u << 20))
      continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    // A byte of every 4 KiB of the first mebibyte: headers and payloads alike.
    for (std::size_t at = 100; at < (1u << 20); at += 4096) {
      file.seekg(static_cast<std::streamoff>(at));
      const int byte = file.get();
      file.seekp(static_cast<std::streamoff>(at));
      file.put(static_cast<char>(byte ^ 0x40));
      ++damaged;
    }
  }
  ASSERT_GT(damaged, 0u);

  daemon = start_daemon();
  ASSERT_TRUE(wait_connected(*engine));
  const auto answer = logits_of(*engine, engine->space(), prompt);
  EXPECT_EQ(answer.hit.cached_tokens, 0u);
  EXPECT_TRUE(same_bits(answer.logits, plain.logits));
  // Not just absent: found out to be damaged.
  const auto stats =
      client::fetch_stats_json(socket_path(), client::Deadline::clock::now() + patience);
  ASSERT_TRUE(stats.has_value()) << stats.error().message();
  EXPECT_GT(nlohmann::json::parse(*stats).at("tiers").at("disk").at("corruptions"), 0) << *stats;
  // Sealing again heals the hole.
  const auto healed = logits_of(*engine, engine->space(), prompt);
  EXPECT_EQ(healed.hit.cached_tokens, 96u);
  EXPECT_TRUE(same_bits(healed.logits, plain.logits));
}

}  // namespace
}  // namespace terrace::inference
