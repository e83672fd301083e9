// Which addresses are device memory.
#pragma once

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "core/cuda/driver_api.h"

namespace terrace::storage {

// Any thread. An accelerator has one arena, rarely two.
class DeviceRanges {
 public:
  void add(cuda::DeviceAddress begin, std::size_t bytes) {
    const std::unique_lock lock(mutex_);
    ranges_.push_back({begin, bytes});
  }
  void remove(cuda::DeviceAddress begin) {
    const std::unique_lock lock(mutex_);
    std::erase_if(ranges_, [&](const Range& range) { return range.begin == begin; });
  }
  bool contains(const void* at) const {
    const auto address = reinterpret_cast<cuda::DeviceAddress>(at);
    const std::shared_lock lock(mutex_);
    return std::ranges::any_of(ranges_, [&](const Range& range) {
      return address >= range.begin && address - range.begin < range.bytes;
    });
  }

 private:
  struct Range {
    cuda::DeviceAddress begin;
    std::size_t bytes;
  };
  mutable std::shared_mutex mutex_;
  std::vector<Range> ranges_;
};

}  // namespace terrace::storage
