// The main job: what was computed once is found again, in every tier, and changes nothing in the
// answer.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "client/operator.h"
#include "tests/integration/worker_fixture.h"

namespace terrace::inference {
namespace {

class PrefixReuse : public WorkerFixture, public ::testing::WithParamInterface<Compute> {};

TEST_P(PrefixReuse, LogitsAreTheSameBitsFromEveryTier) {
  auto daemon = start_daemon();
  auto engine = load_connected_engine(GetParam());
  const auto prompt = random_prompt(200, 1);
  const auto without = logits_of(*engine, nullptr, prompt);

  const auto cold = logits_of(*engine, engine->space(), prompt);
  EXPECT_EQ(cold.hit.cached_tokens, 0u);
  EXPECT_TRUE(same_bits(cold.logits, without.logits));

  const auto device = logits_of(*engine, engine->space(), prompt);
  EXPECT_EQ(from_tier(device.hit, Tier::device), 192u);
  EXPECT_TRUE(same_bits(device.logits, without.logits));

  ASSERT_EQ(daemon->stop(), 0) << daemon->log();
  daemon = start_daemon();
  ASSERT_TRUE(wait_connected(*engine));
  const auto disk = logits_of(*engine, engine->space(), prompt);
  EXPECT_EQ(from_tier(disk.hit, Tier::disk), 192u);
  EXPECT_TRUE(same_bits(disk.logits, without.logits));

  const auto again = logits_of(*engine, engine->space(), prompt);
  EXPECT_EQ(from_tier(again.hit, Tier::device), 192u);
  EXPECT_TRUE(same_bits(again.logits, without.logits));
}

// The first tokens of a block that goes on differently are copied out of it, wherever it lies.
TEST_P(PrefixReuse, LogitsAreTheSameBitsBehindTheFirstTokensOfABlock) {
  auto daemon = start_daemon();
  auto engine = load_connected_engine(GetParam());
  const auto stored = random_prompt(160, 1);
  logits_of(*engine, engine->space(), stored);
  const auto differing_from = [&](std::size_t at) {
    auto prompt = stored;
    for (std::size_t i = at; i < prompt.size(); ++i) prompt[i] = (prompt[i] + 1) % 300;
    return prompt;
  };
  const auto check = [&](std::size_t shared, Tier tier) {
    const auto prompt = differing_from(shared);
    const auto plain = logits_of(*engine, nullptr, prompt);
    const auto cached = logits_of(*engine, engine->space(), prompt);
    EXPECT_EQ(cached.hit.cached_tokens, shared);
    EXPECT_EQ(from_tier(cached.hit, tier), shared);
    EXPECT_TRUE(same_bits(cached.logits, plain.logits)) << shared;
    // What it computed behind them and sealed is right as well.
    const auto again = logits_of(*engine, engine->space(), prompt);
    EXPECT_EQ(again.hit.cached_tokens, 159u);
    EXPECT_TRUE(same_bits(again.logits, plain.logits)) << shared;
  };
  for (const std::size_t shared : {1u, 20u, 31u, 65u, 94u}) check(shared, Tier::device);
  ASSERT_EQ(daemon->stop(), 0) << daemon->log();
  daemon = start_daemon();
  ASSERT_TRUE(wait_connected(*engine));
  check(107, Tier::disk);
  // The run before it is in the device tier by now.
  const auto prompt = differing_from(150);
  const auto plain = logits_of(*engine, nullptr, prompt);
  const auto mixed = logits_of(*engine, engine->space(), prompt);
  EXPECT_EQ(from_tier(mixed.hit, Tier::device), 128u);
  EXPECT_EQ(from_tier(mixed.hit, Tier::disk), 22u);
  EXPECT_TRUE(same_bits(mixed.logits, plain.logits));
}

INSTANTIATE_TEST_SUITE_P(Computes, PrefixReuse, ::testing::Values(Compute::bf16, Compute::f32),
                         [](const auto& instance) {
                           return std::string(to_string(instance.param));
                         });

using PrefixReuseTest = WorkerFixture;

// Nothing of such a request is kept, of its answer neither, and what is there already is used.
TEST_F(PrefixReuseTest, ARequestThatMayNotBeStoredLeavesNothing) {
  auto daemon = start_daemon();
  auto engine = load_connected_engine();
  using namespace nlohmann::literals;
  const auto blocks = [&]() -> nlohmann::json {
    const auto stats = client::fetch_stats_json(
        socket_path(), std::chrono::steady_clock::now() + std::chrono::seconds(60));
    return nlohmann::json::parse(stats.value_or("{}")).at("/tiers/device/blocks"_json_pointer);
  };
  const auto prompt = random_prompt(200, 3);
  GenerateOptions options;
  options.max_tokens = 80;
  options.store = false;
  const auto secret = engine->generate(prompt, options);
  ASSERT_TRUE(secret.has_value());
  engine->flush_cache(std::chrono::seconds(60));
  EXPECT_EQ(blocks(), 0);
  logits_of(*engine, engine->space(), std::span(prompt).first(100));
  EXPECT_EQ(blocks(), 3);
  const auto again = engine->generate(prompt, options);
  ASSERT_TRUE(again.has_value());
  engine->flush_cache(std::chrono::seconds(60));
  EXPECT_EQ(again->hit.cached_tokens, 96u);
  EXPECT_EQ(again->token_ids, secret->token_ids);
  EXPECT_EQ(blocks(), 3);
}

TEST_F(PrefixReuseTest, AnotherQuestionOnTheSamePrefixHits) {
  const auto daemon = start_daemon();
  auto engine = load_connected_engine();
  auto first = random_prompt(170, 2), second = first;
  for (std::size_t i = 150; i < second.size(); ++i) second[i] = (second[i] + 1) % 300;
  generate(*engine, first);
  engine->flush_cache(patience);
  const auto plain = logits_of(*engine, nullptr, second);
  const auto cached = logits_of(*engine, engine->space(), second);
  EXPECT_EQ(cached.hit.cached_tokens, 150u);
  EXPECT_TRUE(same_bits(cached.logits, plain.logits));
}

TEST_F(PrefixReuseTest, GeneratedTokensAreCachedForTheNextTurn) {
  const auto daemon = start_daemon();
  auto engine = load_connected_engine();
  auto conversation = random_prompt(60, 3);
  const auto answer = generate(*engine, conversation, 40);
  ASSERT_EQ(answer.token_ids.size(), 40u);
  engine->flush_cache(patience);
  conversation.insert(conversation.end(), answer.token_ids.begin(), answer.token_ids.end());
  conversation.push_back(5);
  // 60 + 39 tokens were computed (the last one's KV never was): three full blocks.
  const auto plain = logits_of(*engine, nullptr, conversation);
  const auto next = logits_of(*engine, engine->space(), conversation);
  EXPECT_EQ(next.hit.cached_tokens, 96u);
  EXPECT_TRUE(same_bits(next.logits, plain.logits));
}

TEST_F(PrefixReuseTest, AtLeastOneTokenOfAFullyCachedPromptIsComputed) {
  const auto daemon = start_daemon();
  auto engine = load_connected_engine();
  const auto prompt = random_prompt(128, 4);
  const auto first = generate(*engine, prompt);
  engine->flush_cache(patience);
  const auto second = generate(*engine, prompt);
  EXPECT_EQ(second.hit.cached_tokens, 127u);
  EXPECT_EQ(second.token_ids, first.token_ids);
}

TEST_F(PrefixReuseTest, APromptShorterThanABlockHitsTheFirstTokensOfOne) {
  const auto daemon = start_daemon();
  auto engine = load_connected_engine();
  const auto stored = random_prompt(40, 12);
  logits_of(*engine, engine->space(), stored);
  const auto prompt = std::vector<Token>(stored.begin(), stored.begin() + 20);
  const auto plain = logits_of(*engine, nullptr, prompt);
  const auto cached = logits_of(*engine, engine->space(), prompt);
  EXPECT_EQ(cached.hit.cached_tokens, 19u);
  EXPECT_TRUE(same_bits(cached.logits, plain.logits));
  // A prompt of one token has nothing that need not be computed.
  EXPECT_EQ(logits_of(*engine, engine->space(), {stored.data(), 1}).hit.cached_tokens, 0u);
}

TEST_F(PrefixReuseTest, AnotherWorkerHitsWhatTheFirstComputed) {
  const auto daemon = start_daemon();
  auto first = load_connected_engine(), second = load_connected_engine();
  const auto prompt = random_prompt(100, 5);
  const auto cold = logits_of(*first, first->space(), prompt);
  const auto hit = logits_of(*second, second->space(), prompt);
  EXPECT_EQ(from_tier(hit.hit, Tier::device), 96u);
  EXPECT_TRUE(same_bits(hit.logits, cold.logits));
}

TEST_F(PrefixReuseTest, AnotherPrecisionIsAnotherSpace) {
  const auto daemon = start_daemon();
  auto bf16 = load_connected_engine(Compute::bf16), f32 = load_connected_engine(Compute::f32);
  const auto prompt = random_prompt(100, 6);
  logits_of(*bf16, bf16->space(), prompt);
  EXPECT_EQ(logits_of(*f32, f32->space(), prompt).hit.cached_tokens, 0u);
}

TEST_F(PrefixReuseTest, AnotherModelOfTheSameShapeIsAnotherSpace) {
  const auto daemon = start_daemon();
  auto engine = load_connected_engine();
  const auto prompt = random_prompt(100, 7);
  logits_of(*engine, engine->space(), prompt);
  test_support::TinyModelOptions other;
  other.context_length = 1024;
  other.seed = 99;
  ASSERT_TRUE(test_support::write_tiny_model(other, model_path()).ok());
  auto retrained = load_connected_engine();
  const auto plain = logits_of(*retrained, nullptr, prompt);
  const auto answer = logits_of(*retrained, retrained->space(), prompt);
  EXPECT_EQ(answer.hit.cached_tokens, 0u);
  EXPECT_TRUE(same_bits(answer.logits, plain.logits));
}

TEST_F(PrefixReuseTest, APromptLongerThanTheContextIsAClearError) {
  auto engine = load_engine(false);
  const auto answer = engine->generate(random_prompt(1025, 8), {});
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code(), StatusCode::invalid_argument);
  EXPECT_EQ(answer.error().message(), "the prompt has 1025 tokens; the model's context holds 1024");
  EXPECT_EQ(generate(*engine, random_prompt(1024, 8), 5).token_ids.size(), 1u);
}

// Stale bytes, NaN above all, would poison the sums of the tokens that a block does not have yet.
TEST_F(PrefixReuseTest, WhatASlotHeldBeforeDoesNotMatter) {
  const auto daemon = start_daemon(small_device);
  auto engine = load_connected_engine();
  client::Space& space = *engine->space();
  const auto limit = std::chrono::steady_clock::now() + patience;
  const client::LeaseId lease = space.new_lease();
  const auto slots = space.reserve(lease, {}, 1000, limit);
  ASSERT_TRUE(slots.has_value());
  ASSERT_GT(slots->size(), 10u);
  for (const client::Slot& slot : *slots)
    std::memset(slot.address, 0xff, engine->model().kv_geometry().block_bytes());
  space.release(lease);
  const auto prompt = random_prompt(200, 10);
  const auto plain = logits_of(*engine, nullptr, prompt);
  EXPECT_TRUE(same_bits(logits_of(*engine, &space, prompt).logits, plain.logits));
}

TEST_F(PrefixReuseTest, LogitsAreTheSameBitsFromTheHostTier) {
  auto settings = small_device;
  settings.push_back("host.capacity=\"8MiB\"");
  const auto daemon = start_daemon(settings);
  auto engine = load_connected_engine();
  const auto prompt = random_prompt(200, 11);
  const auto plain = logits_of(*engine, nullptr, prompt);
  logits_of(*engine, engine->space(), prompt);
  // Slots taken one by one, as growing prompts would, push it down.
  client::Space& space = *engine->space();
  const auto keys = derive_block_keys(space.digest(), prompt, 32);
  const auto limit = std::chrono::steady_clock::now() + patience;
  const client::LeaseId lease = space.new_lease();
  const auto all_in_host = [&] {
    const auto match = space.match(keys, {}, limit);
    return !match.has_value() || std::ranges::all_of(match->blocks, [](BlockState state) {
      return state == BlockState::host;
    });
  };
  while (!all_in_host()) {
    const auto slots = space.reserve(lease, {}, 1, limit);
    ASSERT_TRUE(slots.has_value()) << slots.error().message();
  }
  space.release(lease);
  const auto host = logits_of(*engine, engine->space(), prompt);
  EXPECT_EQ(from_tier(host.hit, Tier::host), 192u);
  EXPECT_TRUE(same_bits(host.logits, plain.logits));
}

// An arena that holds less than one prompt: what has no room is computed into private memory.
TEST_F(PrefixReuseTest, APromptLargerThanTheDeviceTierIsAnswered) {
  const auto daemon = start_daemon(small_device);
  auto engine = load_connected_engine();
  const auto prompt = random_prompt(1000, 9);
  const auto plain = logits_of(*engine, nullptr, prompt);
  for (int round = 0; round < 3; ++round)
    EXPECT_TRUE(same_bits(logits_of(*engine, engine->space(), prompt).logits, plain.logits))
        << round;
}

// More prompts than the device tier holds: they move to the disk and come back.
TEST_F(PrefixReuseTest, WhatTheDeviceTierCannotHoldComesBackFromDisk) {
  const auto daemon = start_daemon(small_device);
  auto engine = load_connected_engine();
  std::vector<std::vector<float>> plain;
  std::size_t from_disk = 0;
  // What the disk has not taken yet is not evicted for others: a slow disk needs more rounds.
  const auto limit = std::chrono::steady_clock::now() + patience;
  for (unsigned round = 0;
       round < 3 || (from_disk == 0 && std::chrono::steady_clock::now() < limit); ++round) {
    for (unsigned seed = 0; seed < 40; ++seed) {
      const auto prompt = random_prompt(130, 100 + seed);
      if (round == 0) plain.push_back(logits_of(*engine, nullptr, prompt).logits);
      const auto answer = logits_of(*engine, engine->space(), prompt);
      EXPECT_TRUE(same_bits(answer.logits, plain[seed])) << round << " " << seed;
      from_disk += from_tier(answer.hit, Tier::disk);
    }
  }
  EXPECT_GT(from_disk, 0u);
}

}  // namespace
}  // namespace terrace::inference
