#include "bench/throughput.h"

#include <chrono>
#include <cstring>
#include <iomanip>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <random>

#include "bench/environment.h"
#include "bench/samples.h"
#include "inference/cpu/probe.h"
#include "inference/model/private_kv.h"

namespace terrace::bench {

namespace {

using namespace terrace::inference;
using Steady = std::chrono::steady_clock;

double seconds_since(Steady::time_point begin) {
  return std::chrono::duration<double>(Steady::now() - begin).count();
}

std::vector<Token> random_tokens(std::size_t count, std::uint32_t vocabulary) {
  std::mt19937 random(1);
  std::vector<Token> tokens(count);
  for (Token& token : tokens) token = static_cast<Token>(random() % vocabulary);
  return tokens;
}

// A model and the memory for as many sequences as a benchmark runs.
struct Bench {
  std::unique_ptr<Llama> model;
  std::vector<Token> tokens;  // one context full
  std::vector<std::unique_ptr<PrivateKv>> kv;

  static Result<Bench> load(const ThroughputOptions& options, std::size_t sequences,
                            std::size_t tokens) {
    auto file = gguf::File::open(options.model_path);
    if (!file) return error(file.error());
    auto model = Llama::load(**file, options.model);
    if (!model) return error(model.error());
    Bench bench;
    bench.model = std::move(*model);
    const LlamaConfig& config = bench.model->config();
    bench.tokens =
        random_tokens(std::min<std::size_t>(tokens, config.context_length), config.vocabulary);
    for (std::size_t i = 0; i < sequences; ++i) {
      bench.kv.push_back(std::make_unique<PrivateKv>(bench.model->kv_geometry()));
      if (Status status = bench.kv.back()->reserve(bench.tokens.size()); !status.ok())
        return error(std::move(status));
    }
    return bench;
  }

  Status compute(std::size_t first, std::size_t count, std::size_t sequences = 1) {
    std::vector<SequenceStep> steps;
    for (std::size_t i = 0; i < sequences; ++i)
      steps.push_back({std::span(tokens).subspan(first, count), static_cast<std::uint32_t>(first),
                       kv[i]->blocks()});
    std::vector<float> logits(sequences * model->config().vocabulary);
    return model->forward(steps, logits);
  }

  // The KV of the first sequence for all others, in memory of their own.
  void copy_kv_to_all() {
    const std::size_t bytes = model->kv_geometry().block_bytes();
    for (std::size_t i = 1; i < kv.size(); ++i)
      for (std::size_t block = 0; block < kv[0]->blocks().size(); ++block)
        std::memcpy(kv[i]->blocks()[block], kv[0]->blocks()[block], bytes);
  }

  // Multiply-adds of a prompt: the layers for every token, its attention, and the head once.
  double multiply_adds(std::size_t count) const {
    const LlamaConfig& config = model->config();
    const double embedding = config.embedding,
                 heads = static_cast<double>(config.heads) * config.head_dim,
                 kv_heads = static_cast<double>(config.kv_heads) * config.head_dim;
    const double layer = embedding * (heads + 2 * kv_heads) + heads * embedding +
                         3 * embedding * config.feed_forward;
    const double n = static_cast<double>(count);
    return config.layers * (n * layer + heads * n * (n + 1)) + embedding * config.vocabulary;
  }

  double kv_bytes_at(std::size_t depth) const {
    const KvGeometry geometry = model->kv_geometry();
    return static_cast<double>(geometry.block_bytes()) / geometry.block_tokens *
           static_cast<double>(depth);
  }
};

nlohmann::ordered_json machine_fields(const Llama& model, const ThroughputOptions& options) {
  return {{"threads", model.threads()},
          {"isa", to_string(model.isa())},
          {"compute", to_string(options.model.compute)},
          {"debug_build", is_debug_build()}};
}

int fail(const Status& status, std::ostream& err) {
  err << "terrace-bench: " << status.message() << std::endl;
  return 1;
}

}  // namespace

int run_prefill(const ThroughputOptions& options, std::ostream& out, std::ostream& err) {
  print_environment(out);
  auto bench = Bench::load(options, 1, 2048);
  if (!bench) return fail(bench.error(), err);
  const Llama& model = *bench->model;
  std::vector<std::size_t> lengths = {128, 512, 1500, 2048};
  if (options.quick) lengths = {128, 512};
  std::erase_if(lengths, [&](std::size_t length) { return length > bench->tokens.size(); });

  Team team(model.threads());  // of the floor; the model's own sleeps meanwhile
  Samples peak;
  std::vector<Samples> rates(lengths.size());
  if (Status status = bench->compute(0, std::min<std::size_t>(64, bench->tokens.size()));
      !status.ok())
    return fail(status, err);
  for (std::size_t repetition = 0; repetition < options.repetitions; ++repetition) {
    peak.add(peak_multiply_adds_per_s(team, kernels(model.isa()), options.model.compute));
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const auto begin = Steady::now();
      if (Status status = bench->compute(0, lengths[i]); !status.ok()) return fail(status, err);
      rates[i].add(static_cast<double>(lengths[i]) / seconds_since(begin));
    }
  }
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  out << "tokens   tokens/s   of peak (" << std::fixed << std::setprecision(0)
      << peak.median() / 1e9 << " G multiply-adds/s)\n";
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const double rate = rates[i].median();
    const double ratio =
        bench->multiply_adds(lengths[i]) / static_cast<double>(lengths[i]) * rate / peak.median();
    out << std::setw(6) << lengths[i] << std::setw(11) << std::setprecision(0) << rate
        << std::setw(11) << std::setprecision(2) << ratio << "\n";
    points.push_back({{"tokens", lengths[i]}, {"tokens_per_s", rate}, {"peak_ratio", ratio}});
  }
  nlohmann::ordered_json line = {
      {"bench", "prefill"}, {"points", points}, {"peak_gmacs", peak.median() / 1e9}};
  line.update(machine_fields(model, options));
  out << line.dump() << std::endl;
  return 0;
}

int run_decode(const ThroughputOptions& options, std::ostream& out, std::ostream& err) {
  print_environment(out);
  constexpr std::size_t many = 8, tokens_timed = 24, longest = 2048;
  auto bench = Bench::load(options, many, longest + tokens_timed);
  if (!bench) return fail(bench.error(), err);
  if (bench->tokens.size() <= tokens_timed)
    return fail(Status(StatusCode::invalid_argument, "the model's context is too short for this"),
                err);
  const Llama& model = *bench->model;
  struct Point {
    std::size_t depth, sequences;
    Samples rate;
  };
  std::vector<Point> points = {{1, 1, {}},       {512, 1, {}},    {1200, 1, {}},
                               {longest, 1, {}}, {512, many, {}}, {longest, many, {}}};
  if (options.quick) points = {{1, 1, {}}, {512, 1, {}}, {512, many, {}}};
  // A context that ends at the deepest point leaves no room for the timed tokens.
  for (Point& point : points)
    point.depth = std::min(point.depth, bench->tokens.size() - tokens_timed);

  const std::size_t prefilled =
      points.size() > 3 ? bench->tokens.size() : std::min<std::size_t>(600, bench->tokens.size());
  if (Status status = bench->compute(0, prefilled); !status.ok()) return fail(status, err);
  bench->copy_kv_to_all();
  const std::size_t weight_bytes = model.weight_bytes();
  Team team(model.threads());  // of the floor; the model's own sleeps meanwhile
  Samples read_rate;
  for (std::size_t repetition = 0; repetition < options.repetitions; ++repetition) {
    read_rate.add(read_bandwidth_bytes_per_s(team, kernels(model.isa()), weight_bytes));
    for (Point& point : points) {
      const auto begin = Steady::now();
      for (std::size_t i = 0; i < tokens_timed; ++i)
        if (Status status = bench->compute(point.depth + i, 1, point.sequences); !status.ok())
          return fail(status, err);
      point.rate.add(static_cast<double>(tokens_timed * point.sequences) / seconds_since(begin));
    }
  }
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  out << "depth   sequences   tokens/s   bytes read, of " << std::fixed << std::setprecision(1)
      << read_rate.median() / 1e9 << " GB/s\n";
  for (const Point& point : points) {
    const double rate = point.rate.median(), sequences = static_cast<double>(point.sequences);
    const double bytes_a_step =
        static_cast<double>(weight_bytes) + sequences * bench->kv_bytes_at(point.depth);
    const double ratio = bytes_a_step * rate / sequences / read_rate.median();
    out << std::setw(5) << point.depth << std::setw(12) << point.sequences << std::setw(11)
        << std::setprecision(1) << rate << std::setw(11) << std::setprecision(2) << ratio << "\n";
    rows.push_back({{"depth", point.depth},
                    {"sequences", point.sequences},
                    {"tokens_per_s", rate},
                    {"read_ratio", ratio}});
  }
  nlohmann::ordered_json line = {
      {"bench", "decode"}, {"points", rows}, {"read_GBps", read_rate.median() / 1e9}};
  line.update(machine_fields(model, options));
  out << line.dump() << std::endl;
  return 0;
}

}  // namespace terrace::bench
