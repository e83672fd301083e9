// Two workers that are asked the same long prompt at once: one computes it.
#include <signal.h>

#include <fstream>
#include <future>
#include <nlohmann/json.hpp>

#include "client/operator.h"
#include "tests/integration/worker_fixture.h"
#include "tests/support/process.h"

namespace terrace::inference {
namespace {

class SingleFlight : public WorkerFixture {
 protected:
  nlohmann::json stats() {
    const auto text =
        client::fetch_stats_json(socket_path(), client::Deadline::clock::now() + patience);
    EXPECT_TRUE(text.has_value()) << text.error().message();
    return nlohmann::json::parse(text.value_or("{}"));
  }
  bool stats_become(const std::string& name, std::uint64_t value) {
    return test_support::wait_until([&] { return stats().at(name) == value; }, patience);
  }
};

class SingleFlightSequence : public SingleFlight {
 protected:
  void SetUp() override {
    daemon_ = start_daemon();
    computing_ = load_connected_engine();
    waiting_ = load_connected_engine();
    plain_ = logits_of(*computing_, nullptr, prompt_).logits;
    SequenceCacheOptions options;
    options.budget = patience;
    options.single_flight_wait = patience;
    sequence_.emplace(computing_->model().kv_geometry(), computing_->space(), options);
    EXPECT_EQ(sequence_->start(prompt_).cached_tokens, 0u);
    ASSERT_TRUE(sequence_->grow_to(prompt_.size()).ok());
    EXPECT_EQ(stats().at("pending_blocks"), 6u);
  }

  std::future<Answer> begin_waiting(std::chrono::nanoseconds wait = patience) {
    return std::async(std::launch::async,
                      [=, this] { return logits_of(*waiting_, waiting_->space(), prompt_, wait); });
  }

  // Computes the next `tokens` tokens of the prompt, and seals what is full.
  void compute(std::size_t tokens) {
    const auto piece = std::span(prompt_).subspan(sequence_->length(), tokens);
    std::vector<float> logits(computing_->model().config().vocabulary);
    const SequenceStep step{piece, static_cast<std::uint32_t>(sequence_->length()),
                            sequence_->blocks()};
    ASSERT_TRUE(computing_->model().forward({&step, 1}, logits).ok());
    sequence_->computed(piece);
  }

  const std::vector<Token> prompt_ = random_prompt(200, 1);
  std::unique_ptr<test_support::DaemonProcess> daemon_;
  std::unique_ptr<Engine> computing_, waiting_;
  std::vector<float> plain_;
  std::optional<SequenceKv> sequence_;
};

TEST_F(SingleFlightSequence, WhatAnotherComputesIsAwaited) {
  auto answer = begin_waiting();
  ASSERT_TRUE(stats_become("waiting_acquires", 1));
  compute(100);
  compute(100);
  const Answer got = answer.get();
  EXPECT_EQ(got.hit.cached_tokens, 192u);
  EXPECT_EQ(from_tier(got.hit, Tier::device), 192u);
  EXPECT_TRUE(same_bits(got.logits, plain_));
}

TEST_F(SingleFlightSequence, WhenTheOtherGivesUpTheRestIsComputed) {
  auto answer = begin_waiting();
  ASSERT_TRUE(stats_become("waiting_acquires", 1));
  compute(100);
  sequence_.reset();
  const Answer got = answer.get();
  EXPECT_EQ(got.hit.cached_tokens, 96u);
  EXPECT_TRUE(same_bits(got.logits, plain_));
  EXPECT_EQ(stats().at("expired_waits"), 0);
}

TEST_F(SingleFlightSequence, AtTheLimitTheRestIsComputed) {
  const Answer got = begin_waiting(std::chrono::milliseconds(20)).get();
  EXPECT_EQ(got.hit.cached_tokens, 0u);
  EXPECT_TRUE(same_bits(got.logits, plain_));
  EXPECT_EQ(stats().at("expired_waits"), 1);
}

TEST_F(SingleFlightSequence, WithoutALimitNothingIsAwaited) {
  const Answer got = begin_waiting({}).get();
  EXPECT_EQ(got.hit.cached_tokens, 0u);
  EXPECT_TRUE(same_bits(got.logits, plain_));
  EXPECT_EQ(stats().at("expired_waits"), 0);
}

// A worker that knows its speed waits no longer than computing takes.
TEST_F(SingleFlightSequence, WhatIsComputedFasterThanTheLimitIsNotAwaitedForAsLong) {
  SequenceCacheOptions options;
  options.budget = patience;
  options.single_flight_wait = std::chrono::hours(1);
  options.prefill_tokens_per_second = 192 * 50;  // 20 ms
  SequenceKv kv(waiting_->model().kv_geometry(), waiting_->space(), options);
  EXPECT_EQ(kv.start(prompt_).cached_tokens, 0u);
  EXPECT_EQ(stats().at("expired_waits"), 1);
}

TEST_F(SingleFlightSequence, OfTwoThatWaitedInVainOneComputesAndTheOtherWaitsOn) {
  auto third_engine = load_connected_engine();
  auto one = begin_waiting();
  auto other = std::async(std::launch::async, [&] {
    return logits_of(*third_engine, third_engine->space(), prompt_, patience);
  });
  ASSERT_TRUE(stats_become("waiting_acquires", 2));
  sequence_.reset();
  const Answer first = one.get(), second = other.get();
  EXPECT_TRUE(same_bits(first.logits, plain_));
  EXPECT_TRUE(same_bits(second.logits, plain_));
  EXPECT_EQ(first.hit.cached_tokens + second.hit.cached_tokens, 192u);
}

// The real programs. The first is stopped in the middle of its prompt, so that the second comes
// while it computes, however fast the machine is.
class SingleFlightPrograms : public SingleFlight {
 protected:
  void SetUp() override {
    test_support::TinyModelOptions model;
    model.layers = 6;
    model.context_length = 5000;
    ASSERT_TRUE(test_support::write_tiny_model(model, model_path()).ok());
    daemon_ = start_daemon();
    std::mt19937 random(1);
    for (int i = 0; i < 4000; ++i) text_ += static_cast<char>('a' + random() % 26);
    std::ofstream(directory_.file("prompt")) << text_;
  }

  std::unique_ptr<test_support::Process> worker(int wait_ms) {
    const std::string config = directory_.file("worker" + std::to_string(wait_ms) + ".toml");
    std::ofstream(config) << "single_flight_wait_ms = " << wait_ms << "\n";
    return std::make_unique<test_support::Process>(std::vector<std::string>{
        std::string(TERRACE_BIN_DIR) + "/terrace-worker", "generate", "--config", config, "--model",
        model_path(), "--raw", "--prompt-file", directory_.file("prompt"), "--max-tokens", "4",
        "--socket", socket_path(), "--json"});
  }

  static nlohmann::json answer_of(test_support::Process& process) {
    EXPECT_EQ(process.wait(patience), 0) << process.errors();
    return nlohmann::json::parse(process.output(), nullptr, false);
  }

  // A worker that has sealed the first pass of its prompt and stands still in the next.
  std::unique_ptr<test_support::Process> stopped_worker() {
    auto first = worker(60'000);
    EXPECT_TRUE(test_support::wait_until(
        [&] { return stats().at("tiers").at("device").at("blocks") > 0; }, patience))
        << first->errors();
    first->signal(SIGSTOP);
    EXPECT_GT(stats().at("pending_blocks"), 0);
    return first;
  }

  std::unique_ptr<test_support::DaemonProcess> daemon_;
  std::string text_;
};

TEST_F(SingleFlightPrograms, TheSecondHitsWhatTheFirstIsComputing) {
  auto first = stopped_worker();
  auto second = worker(60'000);
  ASSERT_TRUE(stats_become("waiting_acquires", 1)) << second->errors();
  first->signal(SIGCONT);
  const nlohmann::json one = answer_of(*first), other = answer_of(*second);
  EXPECT_EQ(one.at("cached_tokens"), 0);
  const std::size_t tokens = other.at("prompt_tokens");
  EXPECT_GE(other.at("cached_tokens"), (tokens - 1) / 32 * 32);
  EXPECT_EQ(other.at("token_ids"), one.at("token_ids"));
  EXPECT_EQ(stats().at("expired_waits"), 0);
}

TEST_F(SingleFlightPrograms, TheSecondComputesWhatTheFirstLeavesWhenItIsKilled) {
  auto first = stopped_worker();
  auto second = worker(60'000);
  ASSERT_TRUE(stats_become("waiting_acquires", 1)) << second->errors();
  first->signal(SIGKILL);
  const nlohmann::json other = answer_of(*second);
  EXPECT_EQ(stats().at("expired_waits"), 0);
  EXPECT_GT(other.at("cached_tokens"), 0);
  auto third = worker(0);
  EXPECT_EQ(answer_of(*third).at("token_ids"), other.at("token_ids"));
}

TEST_F(SingleFlightPrograms, TheSecondWaitsForOneThatStandsStillUntilTheLimit) {
  auto first = stopped_worker();
  auto second = worker(50);
  const nlohmann::json other = answer_of(*second);
  EXPECT_EQ(stats().at("expired_waits"), 1);
  EXPECT_EQ(other.at("finish_reason"), "length");
  first->signal(SIGCONT);
  EXPECT_EQ(answer_of(*first).at("token_ids"), other.at("token_ids"));
}

}  // namespace
}  // namespace terrace::inference
