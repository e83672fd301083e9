// Explaining a long prompt: in steps, and as one match would.
#include "cache_daemon/explanation.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "core/clock.h"
#include "storage/device/host_accelerator.h"

namespace terrace::daemon {
namespace {

class ExplanationTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t block_tokens = 8;

  void SetUp() override {
    storage::CacheOptions options;
    options.device_capacity_bytes = 32 << 20;
    options.slab_bytes = 4 << 20;
    cache_ = std::move(*storage::TieredCache::create(options, accelerator_, nullptr, clock_));
    descriptor_.numerics_id = descriptor_.kv_dtype = descriptor_.layout_id = "test";
    descriptor_.block_tokens = block_tokens;
    descriptor_.block_bytes = 4096;
    space_ = *cache_->open_space(descriptor_);
  }
  static std::vector<Token> prompt(std::size_t blocks) {
    std::vector<Token> tokens(blocks * block_tokens + 3);
    std::iota(tokens.begin(), tokens.end(), 1);
    return tokens;
  }
  // The leading blocks of a prompt, whatever their bytes.
  void store(std::span<const Token> tokens, std::size_t blocks) {
    const auto keys =
        derive_block_keys(descriptor_.digest(), tokens.first(blocks * block_tokens), block_tokens);
    const auto session = cache_->open_session();
    const auto slots = cache_->reserve(session, 1, space_, keys, 0);
    std::vector<storage::SealRequest> requests;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const auto own = tokens.subspan(i * block_tokens, block_tokens);
      requests.push_back(
          {slots[i], i == 0 ? descriptor_.digest() : keys[i - 1], {own.begin(), own.end()}, 0});
    }
    const auto outcomes = cache_->seal(session, 1, requests);
    ASSERT_EQ(outcomes, std::vector(blocks, storage::SealOutcome::sealed));
    cache_->end_session(session);
  }
  template <typename Step>
  static std::size_t turns(Step step) {
    std::size_t turns = 1;
    while (!step()) ++turns;
    return turns;
  }

  SystemClock clock_;
  storage::HostAccelerator accelerator_;
  std::unique_ptr<storage::TieredCache> cache_;
  SpaceDescriptor descriptor_;
  storage::SpaceId space_ = 0;
};

TEST_F(ExplanationTest, ALongPromptIsExplainedInManyTurnsAsIfInOne) {
  constexpr std::size_t asked = 5000, known = 3000;
  auto tokens = prompt(asked);
  store(tokens, known);
  // The first missing block differs from one that is there by its last tokens.
  for (std::size_t i = (known - 10) * block_tokens + 5; i < tokens.size(); ++i)
    tokens[i] += 100'000;
  Explanation explanation(*cache_, space_, descriptor_.digest(), tokens);
  EXPECT_GE(turns([&] { return explanation.derive_keys(); }), 3u);
  EXPECT_GE(turns([&] { return explanation.match(); }), 3u);
  explanation.forget_match();
  EXPECT_GE(turns([&] { return explanation.match(); }), 3u);
  EXPECT_GE(turns([&] { return explanation.write(false, false); }), 10u);

  const auto keys = derive_block_keys(descriptor_.digest(), tokens, block_tokens);
  EXPECT_EQ(explanation.keys(), keys);
  const auto match = cache_->match(space_, keys, tokens);
  ASSERT_EQ(match.matched_blocks, known - 10);
  ASSERT_EQ(match.partial_tokens, 5u);
  const auto json = nlohmann::json::parse(explanation.take_json());
  EXPECT_EQ(json.at("matched_blocks"), match.matched_blocks);
  EXPECT_EQ(json.at("partial_tokens"), match.partial_tokens);
  EXPECT_EQ(json.at("tail_tokens"), 3);
  ASSERT_EQ(json.at("blocks").size(), asked);
  for (std::size_t i = 0; i < asked; ++i) {
    const auto& block = json.at("blocks")[i];
    ASSERT_EQ(block.at("key"), keys[i].hex());
    ASSERT_EQ(block.at("state"), is_present(match.blocks[i]) ? "device" : "absent");
  }
  EXPECT_NE(json.at("blocks")[known - 10].at("why").get<std::string>().find(
                "5 of its 8 tokens agree with block " + match.partial_key.hex()),
            std::string::npos);
}

TEST_F(ExplanationTest, APromptWithoutAWholeBlockIsExplained) {
  const auto tokens = prompt(0);
  Explanation explanation(*cache_, space_, descriptor_.digest(), tokens);
  EXPECT_EQ(turns([&] { return explanation.derive_keys(); }), 1u);
  EXPECT_EQ(turns([&] { return explanation.match(); }), 1u);
  EXPECT_EQ(turns([&] { return explanation.write(false, false); }), 1u);
  const auto json = nlohmann::json::parse(explanation.take_json());
  EXPECT_EQ(json.at("blocks"), nlohmann::json::array());
  EXPECT_EQ(json.at("tail_tokens"), 3);
}

}  // namespace
}  // namespace terrace::daemon
