// gpu_inference_check: terrace-worker's models on a real GPU. Logits beside the CPU's, then how
// fast prompts, answers and copies are, and what the first token takes from each tier. Progress
// goes to standard error, one JSON line to standard output. Status 77: there is no GPU to check
// with.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "inference/cuda/cuda_llama.h"
#include "inference/model/private_kv.h"
#include "inference/model/sampler.h"
#include "storage/device/cuda/cuda_accelerator.h"
#include "tests/gpu/measure.h"
#include "tests/support/daemon_process.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace terrace::gpu {
namespace {

using namespace terrace::inference;
using nlohmann::ordered_json;
using Steady = std::chrono::steady_clock;

constexpr int status_skipped = 77;
// Between two BF16 computations of one model: root mean square over the standard deviation.
constexpr double tolerance = 0.03;
constexpr std::size_t copied_block_bytes = 720 * kib;

struct Sizes {
  std::size_t compared_tokens, prompt_tokens, shared_tokens, ttft_tokens;
  std::vector<std::size_t> sequences;
  int steps;  // timed, of decoding
  std::size_t copied_bytes;
};
const Sizes full{400, 1536, 2048, 1500, {1, 8, 32}, 50, 1 * gib};
// As much as a stand-in can take, and no first tokens: a GPU's pieces of memory hold a small
// model's blocks by the hundred, and pushing them down takes a while.
const Sizes quick{40, 64, 128, 0, {1, 3}, 2, 4 * mib};

Status wrong(const std::string& what) { return {StatusCode::internal, what}; }
void say(const std::string& line) { std::fprintf(stderr, "== %s\n", line.c_str()); }
double seconds_since(Steady::time_point begin) {
  return std::chrono::duration<double>(Steady::now() - begin).count();
}

// As large as a small model, or as small as a stand-in wants it.
Status write_model(bool small, const std::string& path) {
  test_support::TinyModelOptions options;
  options.context_length = 4096;
  options.type = gguf::TensorType::bf16;
  if (!small) {
    options.layers = 8;
    options.embedding = 1024;
    options.feed_forward = 2816;
    options.heads = 16;
    options.kv_heads = 4;
    options.head_dim = 64;
    options.vocabulary = 32'000;
  }
  return test_support::write_tiny_model(options, path);
}

std::vector<Token> tokens_of(std::size_t count, std::uint32_t vocabulary, std::uint32_t seed) {
  std::vector<Token> tokens(count);
  for (Token& token : tokens)
    token = static_cast<Token>((seed = seed * 1664525u + 1013904223u) >> 8) %
            static_cast<Token>(vocabulary);
  return tokens;
}

// Sequences with KV of their own behind blocks that they share.
class Sequences {
 public:
  explicit Sequences(Llama& model)
      : model_(model), shared_(model.kv_geometry(), model.kv_memory()) {}

  Status prefill(std::span<const Token> tokens) {
    if (Status status = shared_.reserve(tokens.size()); !status.ok()) return status;
    position_ = static_cast<std::uint32_t>(tokens.size());
    logits_.resize(model_.config().vocabulary);
    const SequenceStep step{tokens, 0, shared_.blocks()};
    return model_.forward({&step, 1}, logits_);
  }
  // The next token of each of `count` sequences: always at the same place, behind whole blocks.
  Status step(std::size_t count) {
    while (own_.size() < count) {
      own_.push_back(std::make_unique<PrivateKv>(model_.kv_geometry(), model_.kv_memory()));
      if (Status status = own_.back()->reserve(1); !status.ok()) return status;
      tables_.emplace_back(shared_.blocks().begin(), shared_.blocks().end());
      tables_.back().push_back(own_.back()->blocks()[0]);
      tokens_.push_back(static_cast<Token>(own_.size()));
    }
    std::vector<SequenceStep> steps;
    for (std::size_t i = 0; i < count; ++i)
      steps.push_back({std::span(tokens_).subspan(i, 1), position_, tables_[i]});
    logits_.resize(count * model_.config().vocabulary);
    return model_.forward(steps, logits_);
  }
  std::span<const float> logits(std::size_t sequence) const {
    const std::size_t width = model_.config().vocabulary;
    return std::span(logits_).subspan(sequence * width, width);
  }

 private:
  Llama& model_;
  PrivateKv shared_;
  std::uint32_t position_ = 0;
  std::vector<std::unique_ptr<PrivateKv>> own_;
  std::vector<std::vector<std::byte*>> tables_;
  std::vector<Token> tokens_;
  std::vector<float> logits_;
};

Result<std::vector<float>> all_logits(Llama& model, std::span<const Token> tokens) {
  PrivateKv kv(model.kv_geometry(), model.kv_memory());
  if (Status status = kv.reserve(tokens.size()); !status.ok()) return error(std::move(status));
  std::vector<float> logits(tokens.size() * model.config().vocabulary);
  if (Status status = model.forward_all_logits({tokens, 0, kv.blocks()}, logits); !status.ok())
    return error(std::move(status));
  return logits;
}

// How far apart logits are, after their means, over the standard deviation of `expected`.
double difference(std::span<const float> actual, std::span<const float> expected) {
  const auto count = static_cast<double>(expected.size());
  double shift = 0, mean = 0, squares = 0, spread = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    shift += (actual[i] - expected[i]) / count;
    mean += expected[i] / count;
  }
  for (std::size_t i = 0; i < expected.size(); ++i) {
    squares += std::pow(actual[i] - expected[i] - shift, 2);
    spread += std::pow(expected[i] - mean, 2);
  }
  return std::sqrt(squares / spread);
}

Status compare(Llama& on_gpu, Llama& on_cpu, std::size_t count, ordered_json& report) {
  const std::size_t width = on_cpu.config().vocabulary;
  const auto tokens = tokens_of(count, on_cpu.config().vocabulary, 1);
  const auto actual = all_logits(on_gpu, tokens), expected = all_logits(on_cpu, tokens);
  if (!actual) return actual.error().with_context("on the GPU");
  if (!expected) return expected.error();
  double squares = 0;
  std::size_t agreed = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto here = std::span(*actual).subspan(i * width, width);
    const auto there = std::span(*expected).subspan(i * width, width);
    squares += std::pow(difference(here, there), 2) / static_cast<double>(count);
    agreed += greedy_token(here) == greedy_token(there) ? 1 : 0;
  }
  report["difference"] = std::sqrt(squares);
  report["same_best_token"] = static_cast<double>(agreed) / static_cast<double>(count);
  // Not a number is not near either.
  if (!(std::sqrt(squares) < tolerance))
    return wrong("logits differ from the CPU's by " + std::to_string(std::sqrt(squares)));
  return {};
}

Result<double> decode_tokens_per_s(Sequences& sequences, std::size_t count, int steps) {
  // The first launches kernel by kernel, the second makes the graph.
  for (int i = 0; i < 2; ++i)
    if (Status status = sequences.step(count); !status.ok()) return error(std::move(status));
  const auto begin = Steady::now();
  for (int i = 0; i < steps; ++i)
    if (Status status = sequences.step(count); !status.ok()) return error(std::move(status));
  return static_cast<double>(count) * steps / seconds_since(begin);
}

Status measure_speed(Llama& together, Llama& apart, const Sizes& sizes, ordered_json& report) {
  const std::uint32_t vocabulary = together.config().vocabulary;
  const auto prompt = tokens_of(sizes.prompt_tokens, vocabulary, 2);
  double best_s = 1e9;
  for (int round = 0; round < 4; ++round) {
    Sequences prompts(together);
    const auto begin = Steady::now();
    if (Status status = prompts.prefill(prompt); !status.ok()) return status;
    best_s = std::min(best_s, seconds_since(begin));
  }
  report["prefill"] = {{"tokens", sizes.prompt_tokens},
                       {"tokens_per_s", static_cast<double>(sizes.prompt_tokens) / best_s}};
  const auto shared = tokens_of(sizes.shared_tokens, vocabulary, 3);
  Sequences shared_together(together), shared_apart(apart);
  for (Sequences* each : {&shared_together, &shared_apart})
    if (Status status = each->prefill(shared); !status.ok()) return status;
  ordered_json decode = ordered_json::array();
  bool equal = true;
  for (const std::size_t count : sizes.sequences) {
    const auto one = decode_tokens_per_s(shared_together, count, sizes.steps);
    if (!one) return one.error();
    const auto other = decode_tokens_per_s(shared_apart, count, sizes.steps);
    if (!other) return other.error();
    for (std::size_t i = 0; i < count; ++i)
      equal &= std::ranges::equal(shared_together.logits(i), shared_apart.logits(i));
    decode.push_back({{"sequences", count},
                      {"shared_tokens", sizes.shared_tokens},
                      {"tokens_per_s", *one},
                      {"tokens_per_s_apart", *other}});
  }
  report["decode"] = decode;
  report["sharing_changes_no_bit"] = equal;
  return equal ? Status() : wrong("reading a shared prefix once changes logits");
}

Status measure_copy_rates(const cuda::DriverApi& api, const Sizes& sizes, ordered_json& report) {
  auto accelerator = storage::CudaAccelerator::open(api, 0);
  if (!accelerator) return accelerator.error();
  auto device = cuda::Device::open(api, 0);
  if (!device) return device.error();
  auto memory = (*accelerator)->allocate(sizes.copied_bytes);
  if (!memory) return memory.error();
  for (const bool to_device : {true, false}) {
    const auto rate = measure_copies(**device, **accelerator, **memory, to_device,
                                     copied_block_bytes, sizes.copied_bytes);
    if (!rate) return rate.error();
    report[to_device ? "host_to_device_gb_s" : "device_to_host_gb_s"] = rate->terrace_gb_s;
  }
  return {};
}

// What terrace-bench says of a daemon whose arena is the GPU's memory.
Status measure_first_tokens(const std::string& model, const Sizes& sizes, ordered_json& report) {
  const auto result = test_support::run_process(
      {test_support::program_directory() + "/terrace-bench", "ttft", "--model", model, "--backend",
       "cuda", "--quick", "--tokens", std::to_string(sizes.ttft_tokens)},
      {}, std::chrono::seconds(90));
  const std::string& text = result.output;
  const auto line = text.find_last_of('\n', text.size() < 2 ? 0 : text.size() - 2);
  const auto found =
      ordered_json::parse(text.substr(line == std::string::npos ? 0 : line + 1), nullptr, false);
  if (result.status != 0 || !found.is_object())
    return wrong("terrace-bench ttft failed: " + result.errors);
  report["ttft"] = found;
  return {};
}

Status run(const Sizes& sizes, bool small, std::string model_path,
           std::shared_ptr<const inference::gpu::CudaRuntime> runtime) {
  const test_support::TempDir directory;
  if (model_path.empty()) {
    model_path = directory.file("model.gguf");
    if (Status status = write_model(small, model_path); !status.ok()) return status;
  }
  const auto file = gguf::File::open(model_path);
  if (!file) return file.error();
  ordered_json report = {{"check", "inference"},
                         {"device", runtime->device->name()},
                         {"build_type", TERRACE_BUILD_TYPE},
                         {"version", TERRACE_VERSION}};
  ModelOptions options;
  options.notice = say;
  auto together = inference::gpu::load_cuda_llama(**file, options, runtime);
  if (!together) return together.error();
  report["numerics"] = (*together)->numerics_id();
  auto on_cpu = Llama::load(**file, {});
  if (!on_cpu) return on_cpu.error();
  if (Status status = compare(**together, **on_cpu, sizes.compared_tokens, report); !status.ok())
    return status;
  on_cpu = error(StatusCode::unavailable, "no longer needed");
  say("logits agree with the CPU's");

  options.shared_prefixes = SharedPrefixes::apart;
  {
    auto apart = inference::gpu::load_cuda_llama(**file, options, runtime);
    if (!apart) return apart.error();
    if (Status status = measure_speed(**together, **apart, sizes, report); !status.ok())
      return status;
  }
  say("prompts and answers are measured");
  together = error(StatusCode::unavailable, "no longer needed");
  if (Status status = measure_copy_rates(*runtime->driver, sizes, report); !status.ok())
    return status;
  say("copies are measured");
  if (sizes.ttft_tokens > 0)
    if (Status status = measure_first_tokens(model_path, sizes, report); !status.ok())
      return status;
  std::printf("%s\n", report.dump().c_str());
  return {};
}

int main_of(int argc, char** argv) {
  bool small = false;
  std::string model;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--quick") {
      small = true;
    } else if (option == "--model" && i + 1 < argc) {
      model = argv[++i];
    } else {
      std::fprintf(stderr, "usage: gpu_inference_check [--quick] [--model F]\n");
      return 2;
    }
  }
  if (const auto driver = cuda::load_driver(); !driver) {
    std::fprintf(stderr, "gpu_inference_check: skipped: %s\n", driver.error().message().c_str());
    return status_skipped;
  }
  auto runtime = inference::gpu::CudaRuntime::open(0);
  const Status status =
      runtime ? run(small ? quick : full, small, std::move(model), *runtime) : runtime.error();
  if (status.ok()) return EXIT_SUCCESS;
  std::fprintf(stderr, "gpu_inference_check: %s\n", status.to_string().c_str());
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace terrace::gpu

int main(int argc, char** argv) { return terrace::gpu::main_of(argc, argv); }
