#include "cache_daemon/http/metric_list.h"

#include <prometheus/text_serializer.h>

#include <limits>
#include <sstream>

namespace terrace::daemon {
namespace {

double seconds(double ns) { return ns / 1e9; }

}  // namespace

void MetricList::gauges(std::string name, std::string help) {
  families_.push_back({std::move(name), std::move(help), prometheus::MetricType::Gauge, {}});
}
void MetricList::counters(std::string name, std::string help) {
  families_.push_back({std::move(name), std::move(help), prometheus::MetricType::Counter, {}});
}
void MetricList::histograms(std::string name, std::string help) {
  families_.push_back({std::move(name), std::move(help), prometheus::MetricType::Histogram, {}});
}

void MetricList::add(double value, Labels labels) {
  prometheus::MetricFamily& family = families_.back();
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  metric.label = std::move(labels);
  if (family.type == prometheus::MetricType::Counter)
    metric.counter.value = value;
  else
    metric.gauge.value = value;
}

void MetricList::add(const LatencyHistogram& histogram, Labels labels) {
  prometheus::ClientMetric& metric = families_.back().metric.emplace_back();
  metric.label = std::move(labels);
  metric.histogram.sample_count = histogram.count();
  metric.histogram.sample_sum = seconds(static_cast<double>(histogram.sum_ns()));
  std::uint64_t below = 0;
  for (std::size_t i = 0; i <= LatencyHistogram::bounds_ns.size(); ++i) {
    below += histogram.in_bucket(i);
    const double bound = i < LatencyHistogram::bounds_ns.size()
                             ? seconds(static_cast<double>(LatencyHistogram::bounds_ns[i]))
                             : std::numeric_limits<double>::infinity();
    metric.histogram.bucket.push_back({below, bound});
  }
}

std::string MetricList::text() const {
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, families_);
  return std::move(out).str();
}

}  // namespace terrace::daemon
