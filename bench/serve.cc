#include "bench/serve.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <iomanip>
#include <limits>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <random>
#include <thread>
#include <utility>

#include "bench/environment.h"
#include "bench/samples.h"
#include "inference/scheduler/scheduler.h"
#include "tests/support/daemon_process.h"
#include "tests/support/temp_dir.h"

namespace terrace::bench {

namespace {

using namespace terrace::inference;
using Steady = std::chrono::steady_clock;

constexpr std::chrono::seconds connect_limit{30};
constexpr std::size_t least_requests = 12;  // of a load
// As terrace-worker's defaults, with a queue that takes all that comes.
constexpr std::size_t places = 64, queue_places = 1 << 20;

double ms_between(Steady::time_point from, Steady::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

// Prompts that begin with the same tokens; equal seeds give equal prompts.
class Prompts {
 public:
  Prompts(const ServeOptions& options, std::uint32_t vocabulary, std::uint64_t seed)
      : random_(seed), own_tokens_(options.own_tokens), vocabulary_(vocabulary) {
    for (std::size_t i = 0; i < options.shared_tokens; ++i) shared_.push_back(draw());
  }
  std::vector<Token> next() {
    std::vector<Token> prompt = shared_;
    for (std::size_t i = 0; i < own_tokens_; ++i) prompt.push_back(draw());
    return prompt;
  }

 private:
  Token draw() { return static_cast<Token>(random_() % vocabulary_); }

  std::mt19937_64 random_;
  std::size_t own_tokens_;
  std::uint32_t vocabulary_;
  std::vector<Token> shared_;
};

// One request, from its arrival on.
struct Answer {
  Steady::time_point arrived, first_token, ended;
  std::vector<Token> tokens;
  std::size_t cached_tokens = 0;
  Status status;
};

// Waits until all requests of a run are answered.
class Finish {
 public:
  void one_more() {
    const std::lock_guard lock(mutex_);
    ++done_;
    changed_.notify_one();
  }
  void wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t done_ = 0;
};

class Receiver final : public TokenReceiver {
 public:
  Receiver(Answer& answer, Finish& finish) : answer_(answer), finish_(finish) {}

  void begun(const PrefixHit& hit) override { answer_.cached_tokens = hit.cached_tokens; }
  bool take(Token token, const std::optional<TokenLogprobs>&) override {
    if (answer_.tokens.empty()) answer_.first_token = Steady::now();
    answer_.tokens.push_back(token);
    return true;
  }
  void ended(FinishReason) override { end(); }
  void failed(const Status& why) override {
    answer_.status = why;
    end();
  }

 private:
  void end() {
    answer_.ended = Steady::now();
    finish_.one_more();
  }

  Answer& answer_;
  Finish& finish_;
};

// What came of the requests of one load.
struct Run {
  std::vector<Answer> answers;

  double requests_per_s() const {
    const auto last =
        std::max_element(answers.begin(), answers.end(),
                         [](const Answer& a, const Answer& b) { return a.ended < b.ended; });
    return 1000 * static_cast<double>(answers.size()) /
           ms_between(answers.front().arrived, last->ended);
  }
  Samples latencies_ms() const {
    Samples samples;
    for (const Answer& answer : answers) samples.add(ms_between(answer.arrived, answer.ended));
    return samples;
  }
  double mean_latency_ms() const {
    double sum = 0;
    for (const Answer& answer : answers) sum += ms_between(answer.arrived, answer.ended);
    return sum / static_cast<double>(answers.size());
  }
  double mean_ttft_ms() const {
    double sum = 0;
    for (const Answer& answer : answers) sum += ms_between(answer.arrived, answer.first_token);
    return sum / static_cast<double>(answers.size());
  }
  std::size_t cached_tokens() const {
    std::size_t sum = 0;
    for (const Answer& answer : answers) sum += answer.cached_tokens;
    return sum;
  }
};

// Offsets of arrivals from the first, in seconds; a rate of infinity: all at once.
std::vector<double> poisson_arrivals(std::size_t count, double rate, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> arrivals;
  double at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    arrivals.push_back(at);
    const double uniform = (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53;
    at += -std::log(uniform) / rate;
  }
  return arrivals;
}

class ServeBenchmark {
 public:
  ServeBenchmark(const ServeOptions& options, std::string directory, std::ostream& out)
      : options_(options), directory_(std::move(directory)), out_(out) {}

  Result<nlohmann::ordered_json> run() {
    test_support::DaemonProcess daemon({test_support::program_directory() + "/terraced",
                                        directory_,
                                        {"device.capacity=1GiB", "http.listen=\"off\""}});
    if (Status status = daemon.start(); !status.ok()) return error(std::move(status));
    if (Status status = load_engines(daemon.socket_path()); !status.ok())
      return error(std::move(status));
    out_ << "ISA: " << to_string(cached_->model().isa()) << ", " << cached_->model().threads()
         << " threads; prompts of " << options_.shared_tokens << " shared and "
         << options_.own_tokens << " own tokens, answers of " << options_.output_tokens << "\n";

    const auto capacity =
        measure(false, options_.capacity_requests, std::numeric_limits<double>::infinity(), 0);
    if (!capacity) return error(capacity.error());
    const double base = capacity->requests_per_s();
    out_ << std::fixed << std::setprecision(2) << "without a cache: " << base
         << " requests/s at most\n load  cache  requests/s  latency ms  p99 ms  first token ms\n";

    nlohmann::ordered_json line = {{"bench", "serve"}, {"base_requests_per_s", base}};
    nlohmann::ordered_json rows = nlohmann::json::array();
    bool answers_equal = true;
    for (std::size_t i = 0; i < options_.loads.size(); ++i) {
      const double load = options_.loads[i], rate = load * base;
      const auto count =
          std::max(least_requests, static_cast<std::size_t>(std::lround(rate * options_.seconds)));
      std::optional<Run> runs[2];
      for (const bool cache : {false, true}) {
        auto measured = measure(cache, count, rate, i + 1);
        if (!measured) return error(measured.error());
        rows.push_back(print(*measured, load, cache));
        runs[cache ? 1 : 0] = std::move(*measured);
      }
      for (std::size_t k = 0; k < count; ++k)
        answers_equal &= runs[0]->answers[k].tokens == runs[1]->answers[k].tokens;
    }
    // Of a prefix that nobody has seen.
    const auto burst = measure(true, options_.burst, std::numeric_limits<double>::infinity(),
                               options_.loads.size() + 1);
    if (!burst) return error(burst.error());
    out_ << options_.burst << " at once, of a new prefix, with the cache: " << std::setprecision(2)
         << burst->requests_per_s() << " requests/s\n";
    line["burst" + std::to_string(options_.burst) + "_requests_per_s"] = burst->requests_per_s();
    line["loads"] = std::move(rows);
    line["answers_equal"] = answers_equal;
    line["threads"] = cached_->model().threads();
    line["isa"] = to_string(cached_->model().isa());
    line["debug_build"] = is_debug_build();
    if (!answers_equal)
      return error(StatusCode::corruption, "answers with and without the cache differ");
    return line;
  }

 private:
  Status load_engines(const std::string& socket_path) {
    for (const bool cache : {false, true}) {
      EngineOptions options;
      options.model_path = options_.model_path;
      options.model = options_.model;
      options.use_cache = cache;
      options.socket_path = socket_path;
      if (!cache) options.model.shared_prefixes = SharedPrefixes::apart;
      auto engine = Engine::load(std::move(options));
      if (!engine) return engine.error();
      (cache ? cached_ : bare_) = std::move(*engine);
    }
    return cached_->client()->wait_connected(Steady::now() + connect_limit);
  }

  // Requests of prefix number `prefix`, at `rate` a second.
  Result<Run> measure(bool cache, std::size_t count, double rate, std::uint64_t prefix) {
    Engine& engine = cache ? *cached_ : *bare_;
    SchedulerOptions options;
    options.limits.max_sequences = places;
    options.limits.max_queued = queue_places;
    options.share_blocks = cache;
    Prompts prompts(options_, engine.model().config().vocabulary, options_.seed * 1000 + prefix);
    const auto arrivals = poisson_arrivals(count, rate, options_.seed * 1000 + prefix);
    Run run;
    run.answers.resize(count);
    Finish finish;
    Scheduler scheduler(engine, options);
    const auto begin = Steady::now();
    for (std::size_t i = 0; i < count; ++i) {
      SequenceRequest request;
      request.prompt = prompts.next();
      request.max_tokens = options_.output_tokens;
      request.ignore_stop_tokens = true;
      request.receiver = std::make_shared<Receiver>(run.answers[i], finish);
      const auto due = begin + std::chrono::duration_cast<Steady::duration>(
                                   std::chrono::duration<double>(arrivals[i]));
      std::this_thread::sleep_until(due);
      // A sender that comes late does not make a request later.
      run.answers[i].arrived = due;
      std::vector<SequenceRequest> one;
      one.push_back(std::move(request));
      if (const auto ids = scheduler.submit(std::move(one)); !ids) return error(ids.error());
    }
    finish.wait_for(count);
    for (const Answer& answer : run.answers)
      if (!answer.status.ok()) return error(answer.status);
    if (cache) engine.flush_cache(std::chrono::seconds(5));
    return run;
  }

  nlohmann::ordered_json print(const Run& run, double load, bool cache) {
    const double p99 = run.latencies_ms().quantile(0.99);
    out_ << std::setw(5) << std::setprecision(2) << load << std::setw(7) << (cache ? "yes" : "no")
         << std::setw(12) << run.requests_per_s() << std::setprecision(0) << std::setw(12)
         << run.mean_latency_ms() << std::setw(8) << p99 << std::setw(16) << run.mean_ttft_ms()
         << std::endl;
    return {{"load", load},
            {"cache", cache},
            {"requests", run.answers.size()},
            {"requests_per_s", run.requests_per_s()},
            {"latency_mean_ms", run.mean_latency_ms()},
            {"latency_p99_ms", p99},
            {"ttft_mean_ms", run.mean_ttft_ms()},
            {"cached_tokens", run.cached_tokens()}};
  }

  const ServeOptions& options_;
  const std::string directory_;
  std::ostream& out_;
  std::unique_ptr<Engine> bare_, cached_;
};

}  // namespace

int run_serve_bench(const ServeOptions& options, std::ostream& out, std::ostream& err) {
  const test_support::TempDir temporary(options.directory.empty()
                                            ? std::filesystem::temp_directory_path()
                                            : std::filesystem::path(options.directory));
  print_environment(out, temporary.path());
  const auto line = ServeBenchmark(options, temporary.path(), out).run();
  if (!line) {
    err << "terrace-bench serve: " << line.error().message() << std::endl;
    return 1;
  }
  out << line->dump() << std::endl;
  return 0;
}

}  // namespace terrace::bench
