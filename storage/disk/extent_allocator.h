// Which units of the data files are free.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "storage/disk/extent.h"

namespace terrace::storage {

// Best fit: the smallest free run that is large enough, of those the one at the lowest address, cut
// at its front; runs coalesce when they are freed. Blocks of one space have one size, so that
// nothing is lost to fragments there. Cutting at the front is what lets recovery skip from record
// to record (see rebuild): within a free run no old header can be left in front of a new record.
// One thread.
class ExtentAllocator {
 public:
  // Adds a file of `units` free units; `file` is new.
  void add_file(std::uint32_t file, std::uint32_t units);

  // Takes a given run out of the free ones; false (and nothing changes) if not all of it is free.
  bool claim(const Extent& extent);

  // nullopt if no free run is long enough. `units` > 0.
  std::optional<Extent> allocate(std::uint32_t units);

  // Takes free runs of at least `min_run_units`, the ones at the lowest addresses, until they have
  // `units` together (the last is cut, at its front) or there are `max_runs` of them.
  std::vector<Extent> take_runs(std::uint64_t units, std::uint32_t min_run_units,
                                std::size_t max_runs);

  // Gives back what claim(), allocate() or take_runs() gave.
  void free(const Extent& extent);

  std::uint64_t used_units() const { return total_units_ - free_units_; }
  std::uint64_t free_units() const { return free_units_; }
  std::uint64_t total_units() const { return total_units_; }
  std::vector<Extent> free_extents() const;

 private:
  using Start = std::pair<std::uint32_t, std::uint32_t>;                  // file, first
  using Sized = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>;  // units, file, first

  void insert(const Extent& extent);
  void remove(std::map<Start, std::uint32_t>::iterator at);

  std::map<Start, std::uint32_t> by_start_;
  std::set<Sized> by_size_;
  std::uint64_t total_units_ = 0, free_units_ = 0;
};

}  // namespace terrace::storage
