#include "storage/redis/breaker.h"

#include <gtest/gtest.h>

#include "tests/storage/support/manual_clock.h"

namespace terrace::storage::redis {
namespace {

constexpr std::int64_t ms = 1'000'000;

class CircuitBreakerTest : public ::testing::Test {
 protected:
  std::int64_t now() const { return clock_.monotonic_ns(); }
  // Waits for the probe that is due and says how long that took.
  std::int64_t wait_ms() {
    std::int64_t waited = 0;
    for (; !breaker_.begin_probe(now()); ++waited) clock_.advance_ms(1);
    return waited;
  }

  ManualClock clock_;
  CircuitBreaker breaker_{{3, 100 * ms, 400 * ms}, 1};
};

TEST_F(CircuitBreakerTest, OnlyFailuresInARowOpenIt) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(breaker_.failure(now()));
    EXPECT_FALSE(breaker_.failure(now()));
    EXPECT_FALSE(breaker_.success());
  }
  EXPECT_TRUE(breaker_.closed());
  breaker_.failure(now());
  breaker_.failure(now());
  EXPECT_TRUE(breaker_.failure(now()));
  EXPECT_EQ(breaker_.state(), Breaker::open);
  EXPECT_FALSE(breaker_.failure(now())) << "it is open already";
}

TEST_F(CircuitBreakerTest, AnAnswerThatSaysItAllOpensItAtOnce) {
  EXPECT_TRUE(breaker_.trip(now()));
  EXPECT_EQ(breaker_.state(), Breaker::open);
}

TEST_F(CircuitBreakerTest, OneProbeAtATimeAndItsAnswerCloses) {
  breaker_.trip(now());
  EXPECT_FALSE(breaker_.begin_probe(now()));
  const std::int64_t waited = wait_ms();
  EXPECT_GE(waited, 50);
  EXPECT_LE(waited, 100);
  EXPECT_EQ(breaker_.state(), Breaker::half_open);
  EXPECT_FALSE(breaker_.closed());
  EXPECT_FALSE(breaker_.begin_probe(now()));
  EXPECT_TRUE(breaker_.success());
  EXPECT_TRUE(breaker_.closed());
}

TEST_F(CircuitBreakerTest, FailedProbesGetRarerUpToALimitAndAnAnswerResetsThat) {
  breaker_.trip(now());
  std::int64_t last = 0;
  for (int i = 0; i < 6; ++i) {
    last = wait_ms();
    EXPECT_TRUE(breaker_.failure(now())) << "one failure is enough";
  }
  EXPECT_GE(last, 200);
  last = wait_ms();
  EXPECT_GE(last, 200);
  EXPECT_LE(last, 400);
  EXPECT_TRUE(breaker_.success());
  breaker_.trip(now());
  EXPECT_LE(wait_ms(), 100);
}

TEST(Backoff, IsShortenedAtRandom) {
  Backoff one(1000, 1000, 1), other(1000, 1000, 2);
  int same = 0;
  for (int i = 0; i < 20; ++i) same += one.next() == other.next();
  EXPECT_LT(same, 20);
}

}  // namespace
}  // namespace terrace::storage::redis
