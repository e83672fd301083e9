// The scheduler on a real model (small and random): the same ids whatever is computed beside it.
#include "inference/scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <random>

#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace terrace::inference {
namespace {

constexpr std::chrono::seconds patience{60};

class Collected final : public TokenReceiver {
 public:
  void begun(const PrefixHit& hit) override {
    const std::lock_guard lock(mutex_);
    cached_tokens_ = hit.cached_tokens;
  }
  bool take(Token token, const std::optional<TokenLogprobs>& logprobs) override {
    const std::lock_guard lock(mutex_);
    tokens_.push_back(token);
    if (logprobs) logprobs_.push_back(*logprobs);
    changed_.notify_all();
    if (tokens_.size() < stop_after) return true;
    done_ = true;
    return false;
  }
  void ended(FinishReason) override { finish({}); }
  void failed(const Status& why) override { finish(why); }

  std::vector<Token> wait() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, patience, [this] { return done_; }));
    EXPECT_TRUE(status_.ok()) << status_.message();
    return tokens_;
  }
  Status wait_status() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, patience, [this] { return done_; }));
    return status_;
  }
  void wait_for_tokens(std::size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        changed_.wait_for(lock, patience, [&] { return done_ || tokens_.size() >= count; }));
  }
  std::size_t cached_tokens() {
    const std::lock_guard lock(mutex_);
    return cached_tokens_;
  }
  std::vector<TokenLogprobs> logprobs() {
    const std::lock_guard lock(mutex_);
    return logprobs_;
  }

  std::size_t stop_after = 100'000;

 private:
  void finish(const Status& status) {
    const std::lock_guard lock(mutex_);
    status_ = status;
    done_ = true;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Token> tokens_;
  std::vector<TokenLogprobs> logprobs_;
  std::size_t cached_tokens_ = 0;
  bool done_ = false;
  Status status_;
};

class SchedulerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new test_support::TempDir;
    test_support::TinyModelOptions model;
    model.context_length = 1024;
    ASSERT_TRUE(test_support::write_tiny_model(model, directory_->file("tiny.gguf")).ok());
    EngineOptions options;
    options.model_path = directory_->file("tiny.gguf");
    options.model.threads = 2;
    options.use_cache = false;
    auto engine = Engine::load(options);
    ASSERT_TRUE(engine.has_value()) << engine.error().message();
    engine_ = engine->release();
  }
  static void TearDownTestSuite() {
    delete engine_;
    delete directory_;
  }

  static std::vector<Token> random_prompt(std::size_t tokens, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Token> prompt(tokens);
    for (Token& token : prompt) token = static_cast<Token>(random() % 300);
    return prompt;
  }
  static SequenceRequest request(std::vector<Token> prompt, std::uint32_t max_tokens,
                                 std::shared_ptr<Collected> receiver) {
    SequenceRequest request;
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    request.ignore_stop_tokens = true;
    request.receiver = std::move(receiver);
    return request;
  }
  // Answers all at once.
  static std::vector<std::vector<Token>> answers(Scheduler& scheduler,
                                                 const std::vector<std::vector<Token>>& prompts,
                                                 std::uint32_t max_tokens) {
    std::vector<SequenceRequest> requests;
    std::vector<std::shared_ptr<Collected>> receivers;
    for (const auto& prompt : prompts) {
      receivers.push_back(std::make_shared<Collected>());
      requests.push_back(request(prompt, max_tokens, receivers.back()));
    }
    EXPECT_TRUE(scheduler.submit(std::move(requests)).has_value());
    std::vector<std::vector<Token>> all;
    for (const auto& receiver : receivers) all.push_back(receiver->wait());
    return all;
  }
  static std::vector<Token> alone(const std::vector<Token>& prompt, std::uint32_t max_tokens) {
    GenerateOptions options;
    options.max_tokens = max_tokens;
    const auto generation = engine_->generate(prompt, options);
    EXPECT_TRUE(generation.has_value());
    return generation ? generation->token_ids : std::vector<Token>{};
  }
  // The stats once nothing is under way.
  static SchedulerStats settled(const Scheduler& scheduler) {
    SchedulerStats stats;
    const auto limit = std::chrono::steady_clock::now() + patience;
    do {
      stats = scheduler.stats();
      std::this_thread::yield();
    } while ((stats.placed > 0 || stats.queued > 0 || stats.private_kv_bytes > 0) &&
             std::chrono::steady_clock::now() < limit);
    return stats;
  }

  static test_support::TempDir* directory_;
  static Engine* engine_;
};

test_support::TempDir* SchedulerTest::directory_ = nullptr;
Engine* SchedulerTest::engine_ = nullptr;

// A prefix of 200 tokens that all have, and something of their own; and prompts of other lengths.
std::vector<std::vector<Token>> mixed_prompts(
    const std::function<std::vector<Token>(std::size_t, unsigned)>& random_prompt) {
  std::vector<std::vector<Token>> prompts;
  const auto system = random_prompt(200, 99);
  for (unsigned i = 0; i < 6; ++i) {
    prompts.push_back(system);
    const auto own = random_prompt(1 + 17 * i, i);
    prompts.back().insert(prompts.back().end(), own.begin(), own.end());
  }
  for (const std::size_t tokens : {1u, 31u, 32u, 33u, 500u})
    prompts.push_back(random_prompt(tokens, 7));
  return prompts;
}

TEST_F(SchedulerTest, IdsAreTheSameAloneBatchedChunkedSharedAndPreempted) {
  const auto prompts = mixed_prompts(random_prompt);
  constexpr std::uint32_t max_tokens = 40;
  std::vector<std::vector<Token>> expected;
  for (const auto& prompt : prompts) {
    SchedulerOptions one_at_a_time;
    one_at_a_time.limits.max_sequences = 1;
    Scheduler scheduler(*engine_, one_at_a_time);
    expected.push_back(answers(scheduler, {prompt}, max_tokens)[0]);
    const auto whole = alone(prompt, max_tokens);  // which ends where the model says so
    ASSERT_TRUE(std::equal(whole.begin(), whole.end(), expected.back().begin()));
  }
  {
    Scheduler scheduler(*engine_, {});
    EXPECT_EQ(answers(scheduler, prompts, max_tokens), expected) << "batched";
    const SchedulerStats stats = settled(scheduler);
    EXPECT_GE(stats.cached_prompt_tokens, 5 * 192u) << "one prefix was computed for each";
    EXPECT_EQ(stats.private_kv_bytes, 0u);
  }
  SchedulerOptions small;
  small.limits = {.max_sequences = 5, .pass_tokens = 11};
  {
    Scheduler scheduler(*engine_, small);
    EXPECT_EQ(answers(scheduler, prompts, max_tokens), expected) << "in small pieces";
  }
  const std::size_t block_bytes = engine_->model().kv_geometry().block_bytes();
  SchedulerOptions short_of_memory;
  short_of_memory.kv_memory_bytes = 22 * block_bytes;
  Scheduler scheduler(*engine_, short_of_memory);
  EXPECT_EQ(answers(scheduler, prompts, max_tokens), expected) << "preempted";
  EXPECT_GT(settled(scheduler).preemptions, 0u);
}

TEST_F(SchedulerTest, SampledIdsAreTheSameAloneAndBatched) {
  const auto prompts = mixed_prompts(random_prompt);
  const auto sampled = [&](std::size_t max_sequences) {
    SchedulerOptions options;
    options.limits.max_sequences = max_sequences;
    Scheduler scheduler(*engine_, options);
    std::vector<SequenceRequest> requests;
    std::vector<std::shared_ptr<Collected>> receivers;
    for (const auto& prompt : prompts) {
      receivers.push_back(std::make_shared<Collected>());
      requests.push_back(request(prompt, 20, receivers.back()));
      requests.back().sampling = {.temperature = 1,
                                  .top_k = 50,
                                  .top_p = 0.95,
                                  .presence_penalty = 0.5,
                                  .repetition_penalty = 1.1,
                                  .seed = requests.size()};
    }
    EXPECT_TRUE(scheduler.submit(std::move(requests)).has_value());
    std::vector<std::vector<Token>> all;
    for (const auto& receiver : receivers) all.push_back(receiver->wait());
    return all;
  };
  EXPECT_EQ(sampled(16), sampled(1));
}

TEST_F(SchedulerTest, WhoIsCancelledLeavesAndFreesWhatItHeld) {
  Scheduler scheduler(*engine_, {});
  auto going = std::make_shared<Collected>(), staying = std::make_shared<Collected>();
  std::vector<SequenceRequest> requests;
  requests.push_back(request(random_prompt(300, 1), 700, going));
  requests.push_back(request(random_prompt(300, 1), 30, staying));
  auto ids = scheduler.submit(std::move(requests));
  ASSERT_TRUE(ids.has_value());
  going->wait_for_tokens(1);
  scheduler.cancel({(*ids)[0]});
  EXPECT_EQ(staying->wait().size(), 30u);
  const SchedulerStats stats = settled(scheduler);
  EXPECT_EQ(stats.placed, 0u);
  EXPECT_EQ(stats.private_kv_bytes, 0u);
  EXPECT_LT(stats.generated_tokens, 700u) << "it ended by itself";
}

TEST_F(SchedulerTest, AReceiverMayEndItsAnswer) {
  Scheduler scheduler(*engine_, {});
  auto receiver = std::make_shared<Collected>();
  receiver->stop_after = 3;
  std::vector<SequenceRequest> requests;
  requests.push_back(request(random_prompt(10, 1), 700, receiver));
  ASSERT_TRUE(scheduler.submit(std::move(requests)).has_value());
  receiver->wait_for_tokens(3);
  EXPECT_EQ(settled(scheduler).generated_tokens, 3u);
}

TEST_F(SchedulerTest, AFullQueueRefusesAndNothingOfTheRequestsIsTaken) {
  SchedulerOptions options;
  options.limits.max_sequences = 1;
  options.limits.max_queued = 2;
  Scheduler scheduler(*engine_, options);
  auto first = std::make_shared<Collected>();
  const auto short_requests = [&](int count) {
    std::vector<SequenceRequest> requests;
    for (int i = 0; i < count; ++i)
      requests.push_back(request(random_prompt(10, 1), 1, std::make_shared<Collected>()));
    return requests;
  };
  std::vector<SequenceRequest> one;
  one.push_back(request(random_prompt(10, 1), 900, first));
  ASSERT_TRUE(scheduler.submit(std::move(one)).has_value());
  first->wait_for_tokens(1);
  ASSERT_TRUE(scheduler.submit(short_requests(1)).has_value());
  const auto refused = scheduler.submit(short_requests(2));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), StatusCode::resource_exhausted);
  const auto hopeless = scheduler.submit(short_requests(3));
  ASSERT_FALSE(hopeless.has_value());
  EXPECT_EQ(hopeless.error().code(), StatusCode::invalid_argument);
  first->wait();
  EXPECT_EQ(settled(scheduler).generated_tokens, 901u);
}

TEST_F(SchedulerTest, MemoryThatIsTooSmallIsToldOrEndsTheAnswer) {
  SchedulerOptions options;
  options.kv_memory_bytes = 4 * engine_->model().kv_geometry().block_bytes();
  Scheduler scheduler(*engine_, options);
  std::vector<SequenceRequest> large;
  large.push_back(request(random_prompt(500, 1), 1, std::make_shared<Collected>()));
  EXPECT_EQ(scheduler.submit(std::move(large)).error().code(), StatusCode::invalid_argument);
  // 100 tokens of prompt and 28 more; the 29th of the answer needs no place of its own.
  EXPECT_EQ(answers(scheduler, {random_prompt(100, 1)}, 200)[0].size(), 29u);
}

TEST_F(SchedulerTest, SaltsAndRequestsThatStoreNothingShareNothing) {
  Scheduler scheduler(*engine_, {});
  const auto prompt = random_prompt(300, 5);
  auto first = std::make_shared<Collected>();
  std::vector<SequenceRequest> requests;
  requests.push_back(request(prompt, 700, first));
  requests.back().cache_salt = "a";
  const auto ids = scheduler.submit(std::move(requests));
  first->wait_for_tokens(1);
  const auto cached = [&](const std::string& salt) {
    auto receiver = std::make_shared<Collected>();
    std::vector<SequenceRequest> more;
    more.push_back(request(prompt, 1, receiver));
    more.back().cache_salt = salt;
    EXPECT_TRUE(scheduler.submit(std::move(more)).has_value());
    receiver->wait();
    return receiver->cached_tokens();
  };
  EXPECT_EQ(cached("a"), 288u);
  EXPECT_EQ(cached("b"), 0u);
  EXPECT_EQ(cached(""), 0u);
  scheduler.cancel(*ids);

  auto unstored = std::make_shared<Collected>();
  const auto other = random_prompt(300, 6);
  std::vector<SequenceRequest> private_ones;
  private_ones.push_back(request(other, 700, unstored));
  private_ones.back().store = false;
  const auto private_ids = scheduler.submit(std::move(private_ones));
  unstored->wait_for_tokens(1);
  auto receiver = std::make_shared<Collected>();
  std::vector<SequenceRequest> more;
  more.push_back(request(other, 1, receiver));
  ASSERT_TRUE(scheduler.submit(std::move(more)).has_value());
  receiver->wait();
  EXPECT_EQ(receiver->cached_tokens(), 0u);
  scheduler.cancel(*private_ids);
}

TEST_F(SchedulerTest, LogprobsAreThoseOfTheModel) {
  Scheduler scheduler(*engine_, {});
  auto receiver = std::make_shared<Collected>();
  std::vector<SequenceRequest> requests;
  requests.push_back(request(random_prompt(40, 1), 1, receiver));
  requests.back().logprobs = 320;
  ASSERT_TRUE(scheduler.submit(std::move(requests)).has_value());
  const Token token = receiver->wait().at(0);
  const TokenLogprobs logprobs = receiver->logprobs().at(0);
  EXPECT_EQ(logprobs.top.at(0).first, token);
  EXPECT_EQ(logprobs.top.at(0).second, logprobs.logprob);
  double sum = 0;
  for (const auto& [id, logprob] : logprobs.top) sum += std::exp(logprob);
  EXPECT_EQ(logprobs.top.size(), 320u);
  EXPECT_NEAR(sum, 1, 1e-4);
}

}  // namespace
}  // namespace terrace::inference
