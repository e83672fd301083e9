#include "inference/server/worker_metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace terrace::inference {

namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using prometheus::Counter;
using prometheus::Gauge;

const prometheus::Histogram::BucketBoundaries seconds_buckets = {
    .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300};

// What the scheduler counts itself.
void set(Counter& counter, double value) { counter.Increment(value - counter.Value()); }

}  // namespace

struct WorkerMetrics::Families {
  prometheus::Registry registry;
  prometheus::Family<Counter>& requests = BuildCounter()
                                              .Name("terrace_worker_requests_total")
                                              .Help(
                                                  "Requests by endpoint and status; 499: the "
                                                  "client hung up.")
                                              .Register(registry);
  prometheus::Family<prometheus::Histogram>& seconds =
      BuildHistogram()
          .Name("terrace_worker_request_seconds")
          .Help("From a request to the end of its answer.")
          .Register(registry);
  prometheus::Histogram& first_text =
      BuildHistogram()
          .Name("terrace_worker_first_text_seconds")
          .Help("From a request to the first text of its answer, where it is streamed.")
          .Register(registry)
          .Add({}, seconds_buckets);
  prometheus::Family<Gauge>& sequences =
      BuildGauge()
          .Name("terrace_worker_sequences")
          .Help("Answers in the queue, being prepared, and being computed.")
          .Register(registry);
  Gauge& queued = sequences.Add({{"state", "queued"}});
  Gauge& preparing = sequences.Add({{"state", "preparing"}});
  Gauge& running = sequences.Add({{"state", "running"}});
  Gauge& open_requests = gauge("terrace_worker_open_requests", "Requests without an answer yet.");
  Gauge& draining = gauge("terrace_worker_draining", "1 while it ends.");
  Gauge& private_kv = gauge("terrace_worker_private_kv_bytes", "KV memory outside of the arena.");
  prometheus::Family<Counter>& prompt_tokens =
      BuildCounter()
          .Name("terrace_worker_prompt_tokens_total")
          .Help("Tokens of prompts that were computed, and that were cached.")
          .Register(registry);
  Counter& computed_tokens = prompt_tokens.Add({{"source", "computed"}});
  Counter& cached_tokens = prompt_tokens.Add({{"source", "cached"}});
  Counter& generated_tokens =
      counter("terrace_worker_generated_tokens_total", "Tokens of answers.");
  Counter& preemptions =
      counter("terrace_worker_preemptions_total", "Answers that gave their memory up for others.");
  Counter& passes = counter("terrace_worker_passes_total", "Passes through the model.");
  Counter& pass_seconds =
      counter("terrace_worker_pass_seconds_total", "Time spent in passes through the model.");

  Gauge& gauge(const char* name, const char* help) {
    return BuildGauge().Name(name).Help(help).Register(registry).Add({});
  }
  Counter& counter(const char* name, const char* help) {
    return BuildCounter().Name(name).Help(help).Register(registry).Add({});
  }
};

WorkerMetrics::WorkerMetrics() : families_(std::make_unique<Families>()) {}
WorkerMetrics::~WorkerMetrics() = default;

void WorkerMetrics::answered(const char* endpoint, int status, double seconds) {
  families_->requests.Add({{"endpoint", endpoint}, {"code", std::to_string(status)}}).Increment();
  families_->seconds.Add({{"endpoint", endpoint}}, seconds_buckets).Observe(seconds);
}

void WorkerMetrics::first_text(double seconds) { families_->first_text.Observe(seconds); }

std::string WorkerMetrics::text(const SchedulerStats& stats, std::size_t open_requests,
                                bool draining) {
  Families& all = *families_;
  all.queued.Set(static_cast<double>(stats.queued));
  all.preparing.Set(static_cast<double>(stats.placed - stats.running));
  all.running.Set(static_cast<double>(stats.running));
  all.open_requests.Set(static_cast<double>(open_requests));
  all.draining.Set(draining ? 1 : 0);
  all.private_kv.Set(static_cast<double>(stats.private_kv_bytes));
  set(all.computed_tokens, static_cast<double>(stats.computed_prompt_tokens));
  set(all.cached_tokens, static_cast<double>(stats.cached_prompt_tokens));
  set(all.generated_tokens, static_cast<double>(stats.generated_tokens));
  set(all.preemptions, static_cast<double>(stats.preemptions));
  set(all.passes, static_cast<double>(stats.passes));
  set(all.pass_seconds, stats.pass_seconds);
  return prometheus::TextSerializer().Serialize(all.registry.Collect());
}

}  // namespace terrace::inference
