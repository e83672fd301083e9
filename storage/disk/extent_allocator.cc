#include "storage/disk/extent_allocator.h"

#include <algorithm>
#include <iterator>

namespace terrace::storage {

void ExtentAllocator::add_file(std::uint32_t file, std::uint32_t units) {
  total_units_ += units;
  if (units > 0) insert({file, 0, units});
}

bool ExtentAllocator::claim(const Extent& extent) {
  auto at = by_start_.upper_bound({extent.file, extent.first});
  if (at == by_start_.begin()) return false;
  --at;
  const Extent run{at->first.first, at->first.second, at->second};
  if (extent.units == 0 || run.file != extent.file || run.end() < extent.end()) return false;
  remove(at);
  if (extent.first > run.first) insert({run.file, run.first, extent.first - run.first});
  if (run.end() > extent.end()) {
    const auto end = static_cast<std::uint32_t>(extent.end());
    insert({run.file, end, static_cast<std::uint32_t>(run.end() - extent.end())});
  }
  return true;
}

std::optional<Extent> ExtentAllocator::allocate(std::uint32_t units) {
  const auto fit = by_size_.lower_bound({units, 0, 0});
  if (fit == by_size_.end()) return std::nullopt;
  const auto [run_units, file, first] = *fit;
  remove(by_start_.find({file, first}));
  if (run_units > units) insert({file, first + units, run_units - units});
  return Extent{file, first, units};
}

std::vector<Extent> ExtentAllocator::take_runs(std::uint64_t units, std::uint32_t min_run_units,
                                               std::size_t max_runs) {
  std::vector<Extent> runs;
  for (auto at = by_start_.begin(); at != by_start_.end() && units > 0 && runs.size() < max_runs;) {
    const auto here = at++;
    if (here->second < min_run_units) continue;
    const auto taken = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(here->second, std::max<std::uint64_t>(units, min_run_units)));
    const Extent run{here->first.first, here->first.second, here->second};
    remove(here);
    if (run.units > taken) insert({run.file, run.first + taken, run.units - taken});
    runs.push_back({run.file, run.first, taken});
    units -= std::min<std::uint64_t>(units, taken);
  }
  return runs;
}

void ExtentAllocator::free(const Extent& extent) {
  Extent run = extent;
  const auto next = by_start_.lower_bound({run.file, run.first});
  if (next != by_start_.begin()) {
    const auto before = std::prev(next);
    const Extent left{before->first.first, before->first.second, before->second};
    if (left.file == run.file && left.end() == run.first) {
      run = {left.file, left.first, left.units + run.units};
      remove(before);
    }
  }
  if (next != by_start_.end() && next->first.first == run.file && next->first.second == run.end()) {
    run.units += next->second;
    remove(next);
  }
  insert(run);
}

std::vector<Extent> ExtentAllocator::free_extents() const {
  std::vector<Extent> extents;
  extents.reserve(by_start_.size());
  for (const auto& [start, units] : by_start_)
    extents.push_back({start.first, start.second, units});
  return extents;
}

void ExtentAllocator::insert(const Extent& extent) {
  by_start_.emplace(Start{extent.file, extent.first}, extent.units);
  by_size_.emplace(extent.units, extent.file, extent.first);
  free_units_ += extent.units;
}

void ExtentAllocator::remove(std::map<Start, std::uint32_t>::iterator at) {
  by_size_.erase({at->second, at->first.first, at->first.second});
  free_units_ -= at->second;
  by_start_.erase(at);
}

}  // namespace terrace::storage
