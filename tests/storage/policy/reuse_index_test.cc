#include "storage/policy/reuse_index.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

namespace terrace::storage {
namespace {

TEST(ReuseClass, GroupsAndBucketsBeginWhereTheySay) {
  const std::vector<std::pair<int, unsigned>> groups{
      {0, 0}, {1, 0}, {2, 1}, {3, 2}, {4, 3}, {6, 3}, {7, 4}, {16, 4}, {17, 5}, {254, 5}, {255, 6}};
  for (const auto& [uses, group] : groups)
    EXPECT_EQ(use_group(static_cast<std::uint8_t>(uses)), group) << uses;
  EXPECT_EQ(new_size(0), 0u);
  EXPECT_EQ(new_size(1), 1u);
  EXPECT_EQ(new_size(127), 7u);
  EXPECT_EQ(new_size(1'000'000), 8u);
  EXPECT_EQ(class_of(use_groups - 1, true, new_sizes - 1), reuse_classes - 1);
  EXPECT_EQ(age_bucket(0), 0u);
  EXPECT_EQ(age_bucket(remembered_requests - 1), age_buckets - 1);
  for (unsigned b = 1; b < age_buckets; ++b) {
    EXPECT_EQ(age_bucket(age_edges[b]), b);
    EXPECT_EQ(age_bucket(age_edges[b] - 1), b - 1);
  }
  // floor(2^(i/2)) without repetitions.
  std::vector<std::uint32_t> edges;
  for (int i = 0; i <= 26; ++i) {
    const auto edge = static_cast<std::uint32_t>(std::exp2(i / 2.0) + 1e-9);
    if (edges.empty() || edges.back() != edge) edges.push_back(edge);
  }
  EXPECT_EQ(edges, std::vector<std::uint32_t>(age_edges.begin(), age_edges.end()));
}

TEST(GittinsIndex, OfAConstantChanceIsThatChance) {
  Hazards hazards;
  hazards.fill(0.003);
  for (const double value : gittins_index(hazards)) EXPECT_NEAR(value, 0.003, 1e-9);
}

TEST(GittinsIndex, LooksForwardToABetterTime) {
  // Reuse is certain to come between the ages of 5 and 8, at a chance of 1 a request, or never:
  // 1 - e^-3 = 0.9502 of a reuse, which takes as long; waiting for it takes 1 request from age 4,
  // 3 from age 2 and 4 from age 1.
  Hazards hazards;
  hazards.fill(1e-9);
  hazards[3] = 1;
  const Hazards index = gittins_index(hazards);
  EXPECT_NEAR(index[3], 1.0, 1e-6);
  EXPECT_NEAR(index[2], 0.9502 / 1.9502, 1e-4);
  EXPECT_NEAR(index[1], 0.9502 / 3.9502, 1e-4);
  EXPECT_NEAR(index[0], 0.9502 / 4.9502, 1e-4);
  EXPECT_NEAR(index[4], 1e-9, 1e-12);
}

TEST(GittinsIndex, GivesUpBeforeAWorseTime) {
  // A chance of 0.5 a request now, little later: what is worth having is had at once.
  Hazards hazards;
  hazards.fill(0.001);
  hazards[0] = 0.5;
  EXPECT_NEAR(gittins_index(hazards)[0], 0.5, 1e-9);
  EXPECT_NEAR(gittins_index(hazards)[1], 0.001, 1e-9);
}

TEST(GittinsIndex, StaysFiniteWhereReuseIsCertain) {
  Hazards hazards;
  hazards.fill(1e6);
  for (const double value : gittins_index(hazards)) EXPECT_TRUE(std::isfinite(value) && value > 0);
}

class ReuseIndexTest : public testing::Test {
 protected:
  void fit() { index_->fit(*reuses_, *exposure_); }
  void count(unsigned c, unsigned bucket, double reuses, double exposure) {
    (*reuses_)[cell_of(c, bucket)] += static_cast<float>(reuses);
    (*exposure_)[cell_of(c, bucket)] += static_cast<float>(exposure);
  }
  double value(unsigned c, unsigned bucket) const { return index_->value(cell_of(c, bucket)); }

  // In the last bucket the index is the chance of reuse itself.
  static constexpr unsigned oldest = age_buckets - 1;
  std::unique_ptr<ReuseIndex> index_ = std::make_unique<ReuseIndex>();
  std::unique_ptr<CellCounts> reuses_ = std::make_unique<CellCounts>();
  std::unique_ptr<CellCounts> exposure_ = std::make_unique<CellCounts>();
};

TEST_F(ReuseIndexTest, KnowsNothingAtFirstAndPrefersTheRecent) {
  for (unsigned b = 1; b < age_buckets; ++b) EXPECT_LT(value(0, b), value(0, b - 1));
  // 0.05 reuses within as many requests as the block is old.
  EXPECT_NEAR(value(5, oldest), 0.05 / 5792, 1e-7);
}

TEST_F(ReuseIndexTest, BelievesACellWithManyCounts) {
  const unsigned c = class_of(1, false, 3);
  count(c, oldest, 1e5, 1e7);
  fit();
  EXPECT_NEAR(value(c, oldest), 0.01, 0.0005);
}

TEST_F(ReuseIndexTest, ACellWithoutCountsTakesAfterItsGroup) {
  count(class_of(1, false, 3), oldest, 1e5, 1e7);
  fit();
  const double relative = value(class_of(1, false, 4), oldest);
  EXPECT_NEAR(relative, 0.01, 0.001);
  // A block of another group takes after its age alone, and that only as far as the counts go.
  EXPECT_NEAR(value(class_of(4, false, 4), oldest), 0.01, 0.001);
}

TEST_F(ReuseIndexTest, LearnsAFactorForTheSizeOfRequests) {
  // In group 1 large requests are reused ten times as often as small ones; group 2 has only been
  // seen with small ones, at twice the rate of group 1.
  count(class_of(1, false, 2), oldest, 1e4, 1e7);
  count(class_of(1, false, 7), oldest, 1e5, 1e7);
  count(class_of(2, false, 2), oldest, 2e4, 1e7);
  for (int i = 0; i < 20; ++i) fit();
  const double small = value(class_of(2, false, 2), oldest);
  const double large = value(class_of(2, false, 7), oldest);
  EXPECT_NEAR(small, 0.002, 0.0002);
  EXPECT_GT(large, 5 * small);
}

TEST_F(ReuseIndexTest, RanksAreAnOrderOfAllCells) {
  for (unsigned cell = 0; cell < reuse_cells; cell += 7)
    count(cell / age_buckets, cell % age_buckets, cell % 101, 1000);
  const std::uint64_t version = index_->version();
  fit();
  EXPECT_NE(index_->version(), version);
  std::vector<bool> seen(reuse_cells, false);
  for (unsigned rank = 0; rank < reuse_cells; ++rank) {
    const unsigned cell = index_->cell_at(rank);
    EXPECT_EQ(index_->rank(cell), rank);
    EXPECT_FALSE(seen[cell]);
    seen[cell] = true;
    if (rank > 0) {
      // But for the last bits, which are not looked at.
      EXPECT_GE(index_->value(cell) * 1.001, index_->value(index_->cell_at(rank - 1)));
    }
  }
}

}  // namespace
}  // namespace terrace::storage
