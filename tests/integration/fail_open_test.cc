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
