// Collects families of metrics in the order in which they are named.
#pragma once

#include <prometheus/metric_family.h>

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "cache_daemon/latency_histogram.h"

namespace terrace::daemon {

class MetricList {
 public:
  using Labels = std::vector<prometheus::ClientMetric::Label>;

  // A family; what is added next belongs to it.
  void gauges(std::string name, std::string help);
  void counters(std::string name, std::string help);  // the name ends in _total
  void histograms(std::string name, std::string help);

  // One figure of the family that was named last.
  void add(double value, Labels labels = {});
  void add(const LatencyHistogram& histogram, Labels labels);

  // A family of one figure.
  template <typename Number>
  void gauge(std::string name, std::string help, Number value) {
    gauges(std::move(name), std::move(help));
    add(static_cast<double>(value));
  }
  template <typename Number>
  void counter(std::string name, std::string help, Number value) {
    counters(std::move(name), std::move(help));
    add(static_cast<double>(value));
  }

  // In the text format.
  std::string text() const;

 private:
  std::vector<prometheus::MetricFamily> families_;
};

}  // namespace terrace::daemon
