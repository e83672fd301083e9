#include "storage/policy/reuse_model.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <vector>

namespace terrace::storage {
namespace {

class ReuseModelTest : public testing::Test {
 protected:
  void pass(std::uint32_t requests) {
    for (std::uint32_t i = 0; i < requests; ++i) model_->begin_request();
  }
  double value(unsigned c, unsigned bucket) const {
    return model_->index().value(cell_of(c, bucket));
  }

  std::unique_ptr<ReuseModel> model_ = std::make_unique<ReuseModel>();
};

TEST_F(ReuseModelTest, ABlockMovesFromCellToCell) {
  const RequestNumber request = model_->begin_request();
  ReuseState state;
  model_->use(state, request, 2, true);
  EXPECT_EQ(state.request, request);
  EXPECT_EQ(model_->cell(state), cell_of(class_of(1, true, 0), 0));
  // Three new blocks: two bits.
  for (int i = 0; i < 3; ++i) model_->add_new_block(request);
  EXPECT_EQ(model_->cell(state), cell_of(class_of(1, true, 2), 0));
  pass(16);
  EXPECT_EQ(model_->cell(state), cell_of(class_of(1, true, 2), age_bucket(16)));
  model_->set_last(state, false);
  EXPECT_EQ(model_->cell(state), cell_of(class_of(1, false, 2), age_bucket(16)));
  pass(remembered_requests - 17);
  EXPECT_TRUE(model_->remembers(request));
  pass(1);
  EXPECT_FALSE(model_->remembers(request));
  EXPECT_FALSE(model_->remembers(unknown_request));
}

TEST_F(ReuseModelTest, LearnsTheTimeOfReuse) {
  // Of every request one block comes back exactly 100 requests later, ten never do.
  std::deque<ReuseState> coming;
  for (int i = 0; i < 6000; ++i) {
    const RequestNumber request = model_->begin_request();
    if (coming.size() == 100) {
      model_->use(coming.front(), request, 2, false);
      coming.pop_front();
    }
    model_->use(coming.emplace_back(), request, 1, false);
    for (int other = 0; other < 10; ++other) {
      ReuseState never;
      model_->use(never, request, 1, false);
    }
  }
  const unsigned once = class_of(0, false, 0), twice = class_of(1, false, 0);
  const unsigned due = age_bucket(100);
  // One in eleven, within the 38 requests of its bucket.
  EXPECT_NEAR(value(once, due), 1.0 / 11 / 38, 0.0006);
  EXPECT_GT(value(once, due), 5 * value(once, due + 1));
  // Waiting from the beginning is worth less than from shortly before, and more than being late.
  EXPECT_LT(value(once, 0), value(once, due));
  EXPECT_GT(value(once, 0), 2 * value(once, due + 1));
  // What has come back once does not again.
  EXPECT_LT(value(twice, due), value(once, due) / 5);
}

TEST_F(ReuseModelTest, UsingTwiceInARequestIsOneUse) {
  const RequestNumber request = model_->begin_request();
  ReuseState state;
  model_->use(state, request, 1, false);
  model_->use(state, request, 2, true);
  EXPECT_EQ(state.uses, 1);
  EXPECT_FALSE(state.last);
}

TEST_F(ReuseModelTest, WhatIsForgottenDoesNotCountAsNotReused) {
  // The same habit twice, but in one of two models what does not come back is forgotten at once.
  ReuseModel other;
  for (int i = 0; i < 3000; ++i) {
    const RequestNumber request = model_->begin_request();
    other.begin_request();
    ReuseState waits, forgotten;
    model_->use(waits, request, 1, false);
    other.use(forgotten, request, 1, false);
    other.forget(forgotten);
  }
  const unsigned once = class_of(0, false, 0);
  EXPECT_LT(value(once, 10), other.index().value(cell_of(once, 10)) / 2);
  const ReuseModel fresh;
  EXPECT_NEAR(other.index().value(cell_of(once, 10)), fresh.index().value(cell_of(once, 10)), 1e-9);
}

TEST_F(ReuseModelTest, CountsFade) {
  const unsigned once = class_of(0, false, 0);
  const double before = value(once, 5);
  for (int i = 0; i < 2000; ++i) {
    const RequestNumber request = model_->begin_request();
    ReuseState state;
    model_->use(state, request, 1, false);
  }
  EXPECT_LT(value(once, 5), before / 2);
  // Long after the last of them is out of the buckets there is nothing left but the prior.
  pass(100'000);
  EXPECT_NEAR(value(once, 5), before, before / 20);
}

TEST_F(ReuseModelTest, CountsAreWorthHalfAfterTheHalfLife) {
  // Blocks that waited in the last bucket for 64 requests, and then no more. Without a reuse the
  // chance there goes with one over the waiting, as the priors count for little beside it.
  const unsigned once = class_of(0, false, 0);
  const RequestNumber request = model_->begin_request();
  std::vector<ReuseState> states(20'000);
  for (ReuseState& state : states) model_->use(state, request, 1, false);
  pass(age_edges[age_buckets - 1] + 64);
  for (const ReuseState& state : states) model_->forget(state);
  pass(64);
  const double before = value(once, age_buckets - 1);
  pass(4096);
  EXPECT_NEAR(value(once, age_buckets - 1) / before, 2, 0.2);
}

}  // namespace
}  // namespace terrace::storage
