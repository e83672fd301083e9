// A real daemon, a real model (small and random) and the worker's engine, or the worker itself,
// before it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "inference/worker/engine.h"
#include "tests/support/daemon_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace terrace::inference {

class WorkerFixture : public ::testing::Test {
 protected:
  static constexpr std::chrono::seconds patience{60};
  // Room for some 60 blocks of the small model.
  inline static const std::vector<std::string> small_device = {"device.capacity=\"1MiB\"",
                                                               "arena.slab=\"256KiB\""};

  WorkerFixture() {
    test_support::TinyModelOptions model;
    model.context_length = 1024;
    EXPECT_TRUE(test_support::write_tiny_model(model, model_path()).ok());
  }

  std::string model_path() const { return directory_.file("tiny.gguf"); }
  std::string socket_path() const { return directory_.file("terraced.sock"); }

  std::unique_ptr<test_support::DaemonProcess> start_daemon(
      std::vector<std::string> settings = {}) {
    settings.insert(settings.begin(), {"disk.capacity=\"256MiB\""});
    if (settings.size() == 1) settings.push_back("device.capacity=\"64MiB\"");
    auto daemon = std::make_unique<test_support::DaemonProcess>(test_support::DaemonOptions{
        std::string(TERRACE_BIN_DIR) + "/terraced", directory_.path(), std::move(settings)});
    const Status status = daemon->start();
    EXPECT_TRUE(status.ok()) << status.message();
    return daemon;
  }

  std::unique_ptr<Engine> load_engine(bool use_cache, Compute compute = Compute::bf16) {
    EngineOptions options;
    options.model_path = model_path();
    options.model.compute = compute;
    options.model.threads = 2;
    options.use_cache = use_cache;
    options.socket_path = socket_path();
    options.warn = [this](const std::string& line) {
      const std::scoped_lock lock(mutex_);
      warnings_.push_back(line);
    };
    auto engine = Engine::load(options);
    EXPECT_TRUE(engine.has_value()) << engine.error().message();
    return std::move(*engine);
  }

  static bool wait_connected(Engine& engine) {
    return engine.client()->wait_connected(std::chrono::steady_clock::now() + patience).ok();
  }

  // An engine that has its daemon.
  std::unique_ptr<Engine> load_connected_engine(Compute compute = Compute::bf16) {
    auto engine = load_engine(true, compute);
    EXPECT_TRUE(wait_connected(*engine));
    return engine;
  }

  std::vector<std::string> warnings() {
    const std::scoped_lock lock(mutex_);
    return warnings_;
  }

  static std::vector<Token> random_prompt(std::size_t tokens, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Token> prompt(tokens);
    for (Token& token : prompt) token = static_cast<Token>(random() % 300);
    return prompt;
  }

  static Generation generate(Engine& engine, std::span<const Token> prompt,
                             std::uint32_t max_tokens = 12) {
    GenerateOptions options;
    options.max_tokens = max_tokens;
    const auto generation = engine.generate(prompt, options);
    EXPECT_TRUE(generation.has_value()) << generation.error().message();
    return generation.value_or(Generation{});
  }

  // The logits after the prompt, computed through `space` (may be null), and what of it was cached.
  struct Answer {
    std::vector<float> logits;
    PrefixHit hit;
  };
  static Answer logits_of(Engine& engine, client::Space* space, std::span<const Token> prompt,
                          std::chrono::nanoseconds single_flight_wait = {}) {
    SequenceCacheOptions options;
    options.budget = patience;
    options.single_flight_wait = single_flight_wait;
    SequenceKv kv(engine.model().kv_geometry(), space, options);
    Answer answer;
    answer.hit = kv.start(prompt);
    EXPECT_TRUE(kv.grow_to(prompt.size()).ok());
    answer.logits.resize(engine.model().config().vocabulary);
    const auto fresh = prompt.subspan(answer.hit.cached_tokens);
    const SequenceStep step{fresh, static_cast<std::uint32_t>(answer.hit.cached_tokens),
                            kv.blocks()};
    const Status status = engine.model().forward({&step, 1}, answer.logits);
    EXPECT_TRUE(status.ok()) << status.message();
    kv.computed(fresh);
    if (space) {
      const Status flushed = space->flush(std::chrono::steady_clock::now() + patience);
      EXPECT_TRUE(flushed.ok()) << flushed.message();
    }
    return answer;
  }

  static bool same_bits(const std::vector<float>& one, const std::vector<float>& other) {
    return one.size() == other.size() &&
           std::memcmp(one.data(), other.data(), one.size() * sizeof(float)) == 0;
  }

  test_support::TempDir directory_;

 private:
  std::mutex mutex_;
  std::vector<std::string> warnings_;
};

inline std::size_t from_tier(const PrefixHit& hit, Tier tier) {
  return hit.tokens_by_tier[static_cast<std::size_t>(tier)];
}

}  // namespace terrace::inference
