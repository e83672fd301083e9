#include "storage/policy/reuse_index.h"

#include <cmath>
#include <utility>

namespace terrace::storage {

namespace {

// Before anything is known: how likely a block is to be reused within as many requests as it is
// old.
constexpr double prior_reuse = 0.05;
// How many reuses the guess of a parent counts for.
constexpr double parent_weight = 16;

constexpr double bucket_length(unsigned bucket) {
  return age_edges[bucket + 1] - age_edges[bucket];
}

template <typename Visit>
void for_each_class(Visit visit) {
  for (unsigned group = 0; group < use_groups; ++group)
    for (unsigned last = 0; last < 2; ++last)
      for (unsigned size = 0; size < new_sizes; ++size)
        visit(group, last, size, class_of(group, last != 0, size));
}

}  // namespace

Hazards gittins_index(const Hazards& hazards) {
  // Stretches of buckets, the nearest on top, each worth less a request than the one before it:
  // what is expected of a block that has come to the beginning of one.
  struct Stretch {
    double reuses, waiting, survival;
    double worth() const { return reuses / waiting; }
  };
  std::array<Stretch, age_buckets> stretches;
  unsigned count = 0;
  Hazards index{};
  for (unsigned b = age_buckets; b-- > 0;) {
    const double reuse = -std::expm1(-hazards[b] * bucket_length(b));
    Stretch here{reuse, reuse / hazards[b], 1 - reuse};
    // Going on is worth it as long as what comes is better.
    while (count > 0 && stretches[count - 1].worth() >= here.worth()) {
      const Stretch& next = stretches[--count];
      here = {here.reuses + here.survival * next.reuses,
              here.waiting + here.survival * next.waiting, here.survival * next.survival};
    }
    stretches[count++] = here;
    index[b] = here.worth();
  }
  return index;
}

ReuseIndex::ReuseIndex() {
  size_factor_.fill(1);
  fit(CellCounts{}, CellCounts{});
}

void ReuseIndex::fit(const CellCounts& reuses, const CellCounts& exposure) {
  // By age alone.
  Hazards by_age;
  for (unsigned b = 0; b < age_buckets; ++b) {
    double h = 0, t = 0;
    for (unsigned c = 0; c < reuse_classes; ++c) {
      h += reuses[cell_of(c, b)];
      t += exposure[cell_of(c, b)];
    }
    by_age[b] = (h + 1) / (t + age_edges[b] / prior_reuse);
  }
  // By use group and age, with a factor for each of the other two; each is fitted with the others
  // as they are.
  std::array<Hazards, use_groups> by_group{}, group_reuses{}, group_exposure{};
  for_each_class([&](unsigned group, unsigned last, unsigned size, unsigned c) {
    const double factor = last_factor_[last] * size_factor_[size];
    for (unsigned b = 0; b < age_buckets; ++b) {
      group_reuses[group][b] += reuses[cell_of(c, b)];
      group_exposure[group][b] += exposure[cell_of(c, b)] * factor;
    }
  });
  for (unsigned group = 0; group < use_groups; ++group)
    for (unsigned b = 0; b < age_buckets; ++b)
      by_group[group][b] = (group_reuses[group][b] + parent_weight) /
                           (group_exposure[group][b] + parent_weight / by_age[b]);
  std::array<double, reuse_classes> class_reuses{}, class_expected{};
  for_each_class([&](unsigned group, unsigned, unsigned, unsigned c) {
    for (unsigned b = 0; b < age_buckets; ++b) {
      class_reuses[c] += reuses[cell_of(c, b)];
      class_expected[c] += exposure[cell_of(c, b)] * by_group[group][b];
    }
  });
  std::array<double, 2> last_reuses{}, last_expected{};
  for_each_class([&](unsigned, unsigned last, unsigned size, unsigned c) {
    last_reuses[last] += class_reuses[c];
    last_expected[last] += class_expected[c] * size_factor_[size];
  });
  for (unsigned last = 0; last < 2; ++last)
    last_factor_[last] =
        (last_reuses[last] + parent_weight) / (last_expected[last] + parent_weight);
  std::array<double, new_sizes> size_reuses{}, size_expected{};
  for_each_class([&](unsigned, unsigned last, unsigned size, unsigned c) {
    size_reuses[size] += class_reuses[c];
    size_expected[size] += class_expected[c] * last_factor_[last];
  });
  for (unsigned size = 0; size < new_sizes; ++size)
    size_factor_[size] =
        (size_reuses[size] + parent_weight) / (size_expected[size] + parent_weight);
  // By cell.
  for_each_class([&](unsigned group, unsigned last, unsigned size, unsigned c) {
    const double factor = last_factor_[last] * size_factor_[size];
    Hazards hazards;
    for (unsigned b = 0; b < age_buckets; ++b)
      hazards[b] = (reuses[cell_of(c, b)] + parent_weight) /
                   (exposure[cell_of(c, b)] + parent_weight / (by_group[group][b] * factor));
    const Hazards values = gittins_index(hazards);
    for (unsigned b = 0; b < age_buckets; ++b)
      values_[cell_of(c, b)] = static_cast<float>(values[b]);
  });
  rank_cells();
  ++version_;
}

// A radix sort: values are positive, so their bits are ordered as they are. The lowest ten bits,
// less than a thousandth of a value, decide nothing.
void ReuseIndex::rank_cells() {
  constexpr unsigned digit_bits = 11;
  constexpr std::uint32_t digits = 1u << digit_bits;
  std::array<std::uint16_t, reuse_cells> order, sorted;
  for (unsigned i = 0; i < reuse_cells; ++i) order[i] = static_cast<std::uint16_t>(i);
  for (unsigned shift = 10; shift < 32; shift += digit_bits) {
    std::array<std::uint16_t, digits> starts{};
    const auto digit = [&](std::uint16_t cell) {
      return (std::bit_cast<std::uint32_t>(values_[cell]) >> shift) & (digits - 1);
    };
    for (const std::uint16_t cell : order) ++starts[digit(cell)];
    std::uint16_t sum = 0;
    for (std::uint16_t& start : starts)
      start =
          static_cast<std::uint16_t>(std::exchange(sum, static_cast<std::uint16_t>(sum + start)));
    for (const std::uint16_t cell : order) sorted[starts[digit(cell)]++] = cell;
    order = sorted;
  }
  cells_ = order;
  for (unsigned rank = 0; rank < reuse_cells; ++rank)
    ranks_[cells_[rank]] = static_cast<std::uint16_t>(rank);
}

}  // namespace terrace::storage
