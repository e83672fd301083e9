// The worker's figures as a Prometheus server scrapes them. docs/worker.md lists them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "inference/scheduler/scheduler.h"

namespace terrace::inference {

constexpr const char* metrics_content_type = "text/plain; version=0.0.4; charset=utf-8";

// One thread.
class WorkerMetrics {
 public:
  WorkerMetrics();
  ~WorkerMetrics();

  // A request was answered, or its client hung up (status 499).
  void answered(const char* endpoint, int status, double seconds);
  // Of a streamed answer, from its request to the first of its text.
  void first_text(double seconds);

  // All of them, those of the scheduler as they are now.
  std::string text(const SchedulerStats& stats, std::size_t open_requests, bool draining);

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace terrace::inference
