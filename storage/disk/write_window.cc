#include "storage/disk/write_window.h"

#include <utility>

namespace terrace::storage {

std::optional<Extent> WriteWindow::allocate(std::uint32_t units) {
  typical_units_ = units;
  return free_.allocate(units);
}

bool WriteWindow::is_low(const ExtentAllocator& from) const {
  return free_.free_units() < target_units_ / 2 && from.free_units() >= target_units_ / 4;
}

bool WriteWindow::wants_more(const ExtentAllocator& from) const {
  const std::uint64_t left = free_.free_units();
  // In steps: the list is written anew each time.
  return left < target_units_ / 4 * 3 && from.free_units() > 0 &&
         (left == 0 || from.free_units() >= target_units_ / 8);
}

std::vector<Extent> WriteWindow::propose(ExtentAllocator& from, std::vector<Extent> in_use) {
  // What became too short for a record would stay for ever.
  for (const Extent& run : free_.free_extents())
    if (run.units < typical_units_ && free_.claim(run)) from.free(run);
  const std::vector<Extent> left = free_.free_extents();
  std::vector<Extent> named = std::move(in_use);
  named.insert(named.end(), left.begin(), left.end());
  if (free_.free_units() < target_units_ && named.size() < max_window_runs)
    proposed_ = from.take_runs(target_units_ - free_.free_units(), typical_units_,
                               max_window_runs - named.size());
  named.insert(named.end(), proposed_.begin(), proposed_.end());
  names_nothing_ = named.empty();
  named_ = named_ || !names_nothing_;
  return named;
}

void WriteWindow::confirm() {
  for (const Extent& run : std::exchange(proposed_, {})) free_.free(run);
  if (names_nothing_) named_ = false;
}

void WriteWindow::reject(ExtentAllocator& back) {
  for (const Extent& run : std::exchange(proposed_, {})) back.free(run);
}

std::uint64_t WriteWindow::free_units() const {
  std::uint64_t units = free_.free_units();
  for (const Extent& run : proposed_) units += run.units;
  return units;
}

void WriteWindow::dissolve(ExtentAllocator& back) {
  for (const Extent& run : free_.free_extents())
    if (free_.claim(run)) back.free(run);
}

std::vector<Extent> WriteWindow::propose_none(ExtentAllocator& back) {
  dissolve(back);
  names_nothing_ = true;
  return {};
}

}  // namespace terrace::storage
