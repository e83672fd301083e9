#include "inference/model/llama.h"

#include <algorithm>
#include <bit>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/space.h"
#include "inference/cpu/kernel_table.h"
#include "inference/cpu/team.h"
#include "inference/model/forward_pass.h"
#include "inference/model/llama_tensors.h"
#include "inference/model/llama_weights.h"
#include "inference/model/rope.h"

namespace terrace::inference {

namespace {

// Raised whenever the bits of a result change with the same kernels.
constexpr int numerics_generation = 1;

class CpuLlama final : public Llama {
 public:
  CpuLlama(const ForwardSettings& settings, std::unique_ptr<Team> team, LlamaWeights weights,
           std::vector<double> rope_frequencies)
      : settings_(settings),
        team_(std::move(team)),
        weights_(std::move(weights)),
        rope_digest_(rope_digest(rope_frequencies)),
        pass_(settings, weights_, std::move(rope_frequencies), *team_) {}

  const LlamaConfig& config() const override { return settings_.config; }
  Compute compute() const override { return settings_.compute; }
  Isa isa() const override { return settings_.kernels->isa; }
  int threads() const override { return team_->threads(); }
  KvGeometry kv_geometry() const override { return settings_.geometry; }
  std::uint64_t weight_bytes() const override { return weights_.bytes(); }

  std::string numerics_id() const override {
    return std::string("cpu.") + settings_.kernels->numerics(settings_.compute) + "." +
           to_string(settings_.compute) + "." + std::to_string(numerics_generation) + "." +
           rope_digest_;
  }

  Status forward(std::span<const SequenceStep> steps, std::span<float> logits) override {
    if (Status status = check(steps, steps.size(), logits.size()); !status.ok()) return status;
    return compute_steps(steps, logits, /*every_token=*/false);
  }

  Status forward_all_logits(const SequenceStep& step, std::span<float> logits) override {
    const std::span<const SequenceStep> steps(&step, 1);
    if (Status status = check(steps, step.tokens.size(), logits.size()); !status.ok())
      return status;
    return compute_steps(steps, logits, /*every_token=*/true);
  }

 private:
  Status check(std::span<const SequenceStep> steps, std::size_t logit_rows,
               std::size_t logits) const;
  Status check_step(const SequenceStep& step) const;
  Status compute_steps(std::span<const SequenceStep> steps, std::span<float> logits,
                       bool every_token);

  ForwardSettings settings_;
  std::unique_ptr<Team> team_;
  LlamaWeights weights_;
  std::string rope_digest_;
  ForwardPass pass_;
  std::vector<PassPiece> pieces_;
  std::vector<std::size_t> logit_rows_;
};

Status CpuLlama::check(std::span<const SequenceStep> steps, std::size_t logit_rows,
                       std::size_t logits) const {
  if (steps.size() > max_steps)
    return {StatusCode::invalid_argument, std::to_string(steps.size()) +
                                              " sequences in one step, at most " +
                                              std::to_string(max_steps) + " are possible"};
  if (logits != logit_rows * settings_.config.vocabulary)
    return {StatusCode::invalid_argument, "room for " + std::to_string(logits) + " logits, need " +
                                              std::to_string(logit_rows) + " x " +
                                              std::to_string(settings_.config.vocabulary)};
  for (const SequenceStep& step : steps)
    if (Status status = check_step(step); !status.ok()) return status;
  return {};
}

Status CpuLlama::check_step(const SequenceStep& step) const {
  const auto invalid = [](std::string message) {
    return Status(StatusCode::invalid_argument, std::move(message));
  };
  if (step.tokens.empty()) return invalid("a step without tokens");
  const std::uint64_t end = std::uint64_t{step.first_position} + step.tokens.size();
  if (end > settings_.config.context_length)
    return invalid(std::to_string(end) + " tokens are more than the model's context of " +
                   std::to_string(settings_.config.context_length));
  for (const Token token : step.tokens)
    if (token < 0 || static_cast<std::uint32_t>(token) >= settings_.config.vocabulary)
      return invalid("the token " + std::to_string(token) + " is outside the vocabulary of " +
                     std::to_string(settings_.config.vocabulary));
  const std::uint32_t block_tokens = settings_.geometry.block_tokens;
  const std::uint64_t needed = (end + block_tokens - 1) / block_tokens;
  if (step.blocks.size() < needed)
    return invalid(std::to_string(step.blocks.size()) + " blocks of KV for " + std::to_string(end) +
                   " tokens, need " + std::to_string(needed));
  constexpr std::uintptr_t alignment = 64;
  for (const std::byte* block : step.blocks.first(needed))
    if (!block || reinterpret_cast<std::uintptr_t>(block) % alignment != 0)
      return invalid("a KV block that is null or not aligned to 64 bytes");
  return {};
}

// Cuts the steps into passes. A pass may hold the end of one sequence and the beginning of the
// next.
Status CpuLlama::compute_steps(std::span<const SequenceStep> steps, std::span<float> logits,
                               bool every_token) {
  float* next_logits = logits.data();
  std::size_t index = 0, done = 0;  // the step, and how many of its tokens were computed
  while (index < steps.size()) {
    pieces_.clear();
    logit_rows_.clear();
    std::size_t rows = 0;
    while (index < steps.size() && rows < settings_.max_rows) {
      const SequenceStep& step = steps[index];
      const std::size_t count = std::min(step.tokens.size() - done, settings_.max_rows - rows);
      pieces_.push_back({.tokens = step.tokens.subspan(done, count),
                         .first_position = step.first_position + static_cast<std::uint32_t>(done),
                         .blocks = step.blocks});
      for (std::size_t i = 0; every_token && i < count; ++i) logit_rows_.push_back(rows + i);
      rows += count;
      done += count;
      if (done < step.tokens.size()) break;
      if (!every_token) logit_rows_.push_back(rows - 1);
      ++index;
      done = 0;
    }
    try {
      pass_.run(pieces_, logit_rows_, next_logits);
    } catch (const std::bad_alloc&) {
      return {StatusCode::resource_exhausted, "no memory for the forward pass"};
    }
    next_logits += logit_rows_.size() * settings_.config.vocabulary;
  }
  return {};
}

Status check_options(const ModelOptions& options) {
  constexpr int max_threads = 1024;
  if (options.threads < 0 || options.threads > max_threads)
    return {StatusCode::invalid_argument, "threads is " + std::to_string(options.threads) +
                                              ", expected 0 to " + std::to_string(max_threads)};
  if (options.block_tokens % chunk_tokens != 0 || !std::has_single_bit(options.block_tokens) ||
      options.block_tokens > max_block_tokens)
    return {StatusCode::invalid_argument,
            "block_tokens is " + std::to_string(options.block_tokens) +
                ", expected a power of two from " + std::to_string(chunk_tokens) + " to " +
                std::to_string(max_block_tokens)};
  if (!supported(options.isa))
    return {StatusCode::unimplemented,
            std::string("this processor lacks ") + to_string(options.isa)};
  return {};
}

Result<std::unique_ptr<Llama>> load_checked(const gguf::File& file, const ModelOptions& options) {
  const auto config = read_llama_config(file);
  if (!config) return error(config.error());
  const auto tensors = find_llama_tensors(file, *config);
  if (!tensors) return error(tensors.error());
  auto frequencies = rope_frequencies(*config, tensors->rope_factors);
  if (!frequencies) return error(frequencies.error());

  ForwardSettings settings;
  settings.config = *config;
  settings.kernels = &kernels(options.isa);
  settings.compute = options.compute;
  settings.geometry = {.layers = config->layers,
                       .kv_heads = config->kv_heads,
                       .head_dim = config->head_dim,
                       .block_tokens = options.block_tokens,
                       .dtype = options.kv};
  settings.max_rows = max_pass_tokens;
  settings.shared_prefixes = options.shared_prefixes;
  auto team = std::make_unique<Team>(options.threads);
  auto weights =
      load_llama_weights(*tensors, *settings.kernels, options.compute, *team, options.progress);
  if (!weights) return error(weights.error());
  return std::make_unique<CpuLlama>(settings, std::move(team), std::move(*weights),
                                    std::move(*frequencies));
}

}  // namespace

Result<std::unique_ptr<Llama>> Llama::load(const gguf::File& file, const ModelOptions& options) {
  if (Status status = check_options(options); !status.ok()) return error(std::move(status));
  try {
    auto model = load_checked(file, options);
    if (!model) return error(model.error().with_context(file.path()));
    return model;
  } catch (const std::bad_alloc&) {
    return error(StatusCode::resource_exhausted, file.path() + ": no memory for the model");
  } catch (const std::system_error& failure) {
    return error(StatusCode::resource_exhausted,
                 "could not make the threads for the model: " + failure.code().message());
  }
}

}  // namespace terrace::inference
