#include "storage/policy/reuse_guard.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>
#include <vector>

namespace terrace::storage {
namespace {

// One block a request.
class ReuseGuardTest : public testing::Test {
 protected:
  void use(std::uint64_t key) {
    const RequestNumber request = model_.begin_request();
    ReuseState& state = states_[key];
    model_.use(state, request, static_cast<std::uint8_t>(std::min<int>(max_uses, state.uses + 1)),
               false);
    guard_.use(key, 0, state);
  }
  // Keys that nothing else has.
  std::uint64_t fresh() { return next_++ * 0x9E3779B97F4A7C15ull; }

  ReuseModel model_;
  ReuseGuard guard_{model_};
  std::unordered_map<std::uint64_t, ReuseState> states_;
  std::uint64_t next_ = 1;
};

TEST_F(ReuseGuardTest, TheIndexDecidesAtFirstAndWhereItIsBetter) {
  guard_.set_capacity(100);
  EXPECT_FALSE(guard_.prefers_recency());
  // A loop over more than there is room for: recency never has a hit.
  std::vector<std::uint64_t> keys(150);
  for (std::uint64_t& key : keys) key = fresh();
  for (int i = 0; i < 6000; ++i) use(keys[static_cast<std::size_t>(i) % keys.size()]);
  EXPECT_FALSE(guard_.prefers_recency());
}

TEST_F(ReuseGuardTest, RecencyTakesOverWhereItIsBetterAndGivesBack) {
  guard_.set_capacity(100);
  std::mt19937_64 random(2);
  // What was learned: a key comes back at once, or after exactly 60 requests if ever, ...
  std::vector<std::uint64_t> history;
  bool taken_over = false, given_back = false;
  for (int i = 0; i < 60'000; ++i) {
    const int phase = i / 600 % 2;
    const bool loops = i > 40'000;
    if (loops) {
      // ... and in the end a loop again, where the index is better.
      if (history.size() > 150) history.resize(150);
      use(history[static_cast<std::size_t>(i) % 150]);
      given_back |= taken_over && !guard_.prefers_recency();
      continue;
    }
    // ... which kind of key comes back turns around faster than can be learned.
    const bool odd = random() % 2;
    if (history.size() > 200 && random() % 2) {
      std::size_t at = history.size() - 1 - random() % 90;
      if (states_[history[at]].uses != (phase ? 1 : 2)) at = history.size() - 1 - random() % 90;
      use(history[at]);
    } else {
      history.push_back(fresh() + odd);
      use(history.back());
    }
    taken_over |= guard_.prefers_recency();
  }
  EXPECT_TRUE(taken_over);
  EXPECT_TRUE(given_back);
}

TEST_F(ReuseGuardTest, ASampleOfALargeTierIsEnough) {
  guard_.set_capacity(20'000);
  std::mt19937_64 random(2);
  std::vector<std::uint64_t> keys(30'000);
  for (std::uint64_t& key : keys) key = random();
  for (int i = 0; i < 120'000; ++i) use(keys[static_cast<std::size_t>(i) % keys.size()]);
  EXPECT_FALSE(guard_.prefers_recency());
}

}  // namespace
}  // namespace terrace::storage
