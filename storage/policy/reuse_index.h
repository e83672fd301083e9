// How much a cell's blocks are worth keeping: the best reuse per request of waiting that they still
// offer, learned from what was reused and what was not.
#pragma once

#include <array>
#include <cstdint>

#include "storage/policy/reuse_class.h"

namespace terrace::storage {

// A number for each cell, by cell_of().
using CellCounts = std::array<float, reuse_cells>;

// The chance of reuse per request of waiting, in each age bucket of one class.
using Hazards = std::array<double, age_buckets>;

// The Gittins index of a block of each age whose chance of reuse is `hazards`: the largest ratio of
// expected reuses to expected waiting that some time of giving up achieves.
// J. Gittins, "Bandit Processes and Dynamic Allocation Indices", 1979; where the chance is constant
// in each bucket, stretches of buckets are pooled as in isotonic regression (R. Barlow et al.,
// "Statistical Inference under Order Restrictions", 1972).
Hazards gittins_index(const Hazards& hazards);

class ReuseIndex {
 public:
  ReuseIndex();

  // Learns anew from all that was counted: `reuses` touches of blocks in each cell, during
  // `exposure` requests of waiting of blocks there (both maybe faded).
  //
  // A cell with few counts leans on its parents (shrinkage, as in empirical Bayes estimation of
  // rates: a prior of as many reuses as its weight says): the age alone, then the use group at that
  // age times a factor for `last` and one for the number of new blocks, then the cell itself.
  void fit(const CellCounts& reuses, const CellCounts& exposure);

  double value(unsigned cell) const { return values_[cell]; }
  // The place of a cell in the order of values, lowest first, and back.
  std::uint16_t rank(unsigned cell) const { return ranks_[cell]; }
  std::uint16_t cell_at(unsigned rank) const { return cells_[rank]; }
  // Changes with each fit.
  std::uint64_t version() const { return version_; }

 private:
  void rank_cells();

  // Kept from one fit to the next.
  std::array<double, 2> last_factor_{1, 1};
  std::array<double, new_sizes> size_factor_;
  std::array<float, reuse_cells> values_{};
  std::array<std::uint16_t, reuse_cells> ranks_{}, cells_{};
  std::uint64_t version_ = 0;
};

}  // namespace terrace::storage
