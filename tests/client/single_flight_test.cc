// Two processes that want the same prefix at once: one computes it, the other waits for it.
#include <signal.h>

#include <future>

#include "tests/client/daemon_fixture.h"
#include "tests/support/process.h"

namespace terrace::client {
namespace {

class SingleFlightTest : public DaemonFixture {
 protected:
  void SetUp() override {
    start_daemon();
    computing_client_ = connected_client();
    waiting_client_ = connected_client();
    computing_ = computing_client_->open_space(descriptor());
    waiting_ = waiting_client_->open_space(descriptor());
    keys_ = keys_of(*computing_, tokens_);
  }

  using Answer = Result<std::vector<AcquiredBlock>>;

  // An acquire that waits, once the daemon knows of it.
  std::future<Answer> begin_waiting(std::chrono::milliseconds wait, Deadline deadline) {
    auto answer = std::async(std::launch::async, [=, this] {
      return waiting_->acquire(waiting_->new_lease(), keys_, {.wait = wait}, deadline);
    });
    EXPECT_TRUE(stats_become("waiting_acquires", 1));
    return answer;
  }

  const std::vector<Token> tokens_ = prompt(4);
  std::unique_ptr<Client> computing_client_, waiting_client_;
  std::shared_ptr<Space> computing_, waiting_;
  std::vector<BlockKey> keys_;
};

TEST_F(SingleFlightTest, AWaiterGetsWhatAnotherProcessComputes) {
  const LeaseId lease = computing_->new_lease();
  const auto slots = computing_->claim(lease, keys_, 0, soon());
  ASSERT_TRUE(slots.has_value() && slots->has_value());
  auto waiting = begin_waiting(patience, soon());
  for (std::size_t i = 0; i < keys_.size(); ++i) fill((**slots)[i], keys_[i]);
  computing_->seal(lease, seal_blocks(*computing_, tokens_, keys_, **slots));
  const Answer answer = waiting.get();
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  ASSERT_EQ(answer->size(), keys_.size());
  for (std::size_t i = 0; i < keys_.size(); ++i)
    EXPECT_TRUE(holds((*answer)[i].slot, keys_[i])) << i;
  EXPECT_EQ(stats().at("awaited_blocks"), keys_.size());
}

TEST_F(SingleFlightTest, OfTwoThatClaimTheSameOneIsToldToWait) {
  const auto one = computing_->claim(computing_->new_lease(), keys_, 1, soon());
  ASSERT_TRUE(one.has_value() && one->has_value());
  EXPECT_EQ((*one)->size(), keys_.size() + 1);
  const auto other = waiting_->claim(waiting_->new_lease(), keys_, 1, soon());
  ASSERT_TRUE(other.has_value()) << other.error().message();
  EXPECT_FALSE(other->has_value());
  EXPECT_EQ(stats().at("reserved_slots"), keys_.size() + 1);
  // Whoever does not want to wait computes all the same.
  const auto all_the_same = waiting_->reserve(waiting_->new_lease(), keys_, 1, soon());
  ASSERT_TRUE(all_the_same.has_value());
  EXPECT_EQ(all_the_same->size(), keys_.size() + 1);
}

TEST_F(SingleFlightTest, AReleaseOfTheReservationEndsTheWait) {
  const LeaseId lease = computing_->new_lease();
  ASSERT_TRUE(computing_->reserve(lease, keys_, 0, soon()).has_value());
  auto waiting = begin_waiting(patience, soon());
  computing_->release(lease);
  const Answer answer = waiting.get();
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  EXPECT_TRUE(answer->empty());
  EXPECT_EQ(stats().at("expired_waits"), 0);
}

TEST_F(SingleFlightTest, TheDeathOfTheComputingProcessEndsTheWait) {
  test_support::Process holder(
      {std::string(TERRACE_BIN_DIR) + "/lease_holder", socket_path(), "--key", keys_[0].hex()});
  ASSERT_TRUE(stats_become("pending_blocks", 1)) << holder.errors();
  auto waiting = begin_waiting(patience, soon());
  holder.signal(SIGKILL);
  const Answer answer = waiting.get();
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  EXPECT_TRUE(answer->empty());
  EXPECT_EQ(stats().at("expired_waits"), 0);
}

TEST_F(SingleFlightTest, AProcessThatStandsStillIsWaitedForUntilTheLimit) {
  test_support::Process holder(
      {std::string(TERRACE_BIN_DIR) + "/lease_holder", socket_path(), "--key", keys_[0].hex()});
  ASSERT_TRUE(stats_become("pending_blocks", 1)) << holder.errors();
  holder.signal(SIGSTOP);
  const Answer answer = waiting_->acquire(waiting_->new_lease(), keys_,
                                          {.wait = std::chrono::milliseconds(20)}, soon());
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  EXPECT_TRUE(answer->empty());
  EXPECT_EQ(stats().at("expired_waits"), 1);
  EXPECT_EQ(stats().at("pending_blocks"), 1);
}

TEST_F(SingleFlightTest, AWaitThatIsGivenUpHoldsNothing) {
  ASSERT_TRUE(computing_->reserve(computing_->new_lease(), keys_, 0, soon()).has_value());
  const Answer answer = waiting_->acquire(waiting_->new_lease(), keys_, {.wait = patience},
                                          Deadline::clock::now() + std::chrono::milliseconds(20));
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code(), StatusCode::deadline_exceeded);
  ASSERT_TRUE(waiting_->flush(soon()).ok());
  EXPECT_EQ(stats().at("waiting_acquires"), 0);
  EXPECT_EQ(stats().at("leases"), 1);
}

TEST_F(SingleFlightTest, TheDeathOfTheDaemonEndsTheWait) {
  ASSERT_TRUE(computing_->reserve(computing_->new_lease(), keys_, 0, soon()).has_value());
  auto waiting = begin_waiting(patience, soon());
  daemon().kill();
  EXPECT_EQ(waiting.get().error().code(), StatusCode::unavailable);
}

TEST_F(SingleFlightTest, ThePartialBlockOfAMatchIsAcquiredBehindItsRun) {
  store(*computing_, tokens_);
  auto asked = tokens_;
  asked[block_tokens + 20] = -1;
  const auto asked_keys = keys_of(*waiting_, asked);
  const auto match = waiting_->match(asked_keys, asked, soon());
  ASSERT_TRUE(match.has_value());
  ASSERT_EQ(match->matched_blocks, 1u);
  EXPECT_EQ(match->partial_tokens, 20u);
  EXPECT_EQ(match->partial_key, keys_[1]);
  EXPECT_EQ(match->partial_tier, Tier::device);
  const std::vector<BlockKey> keys = {asked_keys[0], match->partial_key};
  const auto blocks = waiting_->acquire(waiting_->new_lease(), keys,
                                        {.partial_tokens = match->partial_tokens}, soon());
  ASSERT_TRUE(blocks.has_value()) << blocks.error().message();
  ASSERT_EQ(blocks->size(), 2u);
  EXPECT_TRUE(holds((*blocks)[1].slot, keys_[1]));
}

}  // namespace
}  // namespace terrace::client
