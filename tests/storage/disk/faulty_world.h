// Decorators over the seams of the disk tier that fail the Nth operation, or all from the Nth on.
#pragma once

#include <atomic>
#include <cerrno>
#include <memory>

#include "storage/disk/disk_options.h"

namespace terrace::storage {

// Shared by a test and the decorators. Counts the operations of both seams together.
class FaultPlan {
 public:
  // Fails operation number `first` (0 is the next one) and, with `and_after`, every later one.
  void fail(std::int64_t first, int error_number, bool and_after = false) {
    error_number_ = error_number;
    and_after_ = and_after;
    happened_ = false;
    left_ = first;
  }
  void stop() { left_ = -1; }
  bool happened() const { return happened_; }

  // The error number that this operation fails with, 0 for none.
  int next() {
    if (left_ < 0) return 0;
    if (left_ == 0) {
      happened_ = true;
      if (!and_after_) left_ = -1;
      return error_number_;
    }
    --left_;
    return 0;
  }

 private:
  std::atomic<std::int64_t> left_{-1};
  std::atomic<int> error_number_{EIO};
  std::atomic<bool> and_after_{false}, happened_{false};
};

// The world of the system with the plan's faults in its files (`in_files`) and its ring
// (`in_ring`).
DiskWorld faulty_world(std::shared_ptr<FaultPlan> plan, bool in_files, bool in_ring);

}  // namespace terrace::storage
