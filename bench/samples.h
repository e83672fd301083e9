// Repeated measurements of one thing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace terrace::bench {

class Samples {
 public:
  void add(double value) { values_.push_back(value); }
  std::size_t count() const { return values_.size(); }

  // The value below which `fraction` of the samples lie; 0 without samples.
  double quantile(double fraction) const {
    if (values_.empty()) return 0;
    std::vector<double> sorted = values_;
    std::sort(sorted.begin(), sorted.end());
    const auto at =
        static_cast<std::size_t>(fraction * static_cast<double>(sorted.size() - 1) + 0.5);
    return sorted[at];
  }
  double median() const { return quantile(0.5); }

 private:
  std::vector<double> values_;
};

}  // namespace terrace::bench
