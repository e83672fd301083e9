// Touches the pages of a mapping ahead of their use, on a thread that takes little of a core.
#pragma once

#include <cstddef>
#include <thread>

#include "core/shared_memory.h"

namespace terrace {

class BackgroundPopulation {
 public:
  // Starts at `begin` and goes on to the end of the mapping, which must outlive this object, or to
  // `end` if that comes first. Without a thread (the kernel refuses one) nothing is touched: pages
  // then fault when they are used.
  BackgroundPopulation(const SharedMapping& mapping, std::size_t begin, std::size_t end);
  // Stops; waits for one small piece at most.
  ~BackgroundPopulation() = default;
  BackgroundPopulation(const BackgroundPopulation&) = delete;
  BackgroundPopulation& operator=(const BackgroundPopulation&) = delete;

 private:
  std::jthread thread_;
};

}  // namespace terrace
