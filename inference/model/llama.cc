#include "inference/model/llama.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

namespace terrace::inference {

namespace {

class BackendLlama final : public Llama {
 public:
  BackendLlama(BackendDescription description, std::unique_ptr<Backend> backend)
      : description_(std::move(description)), backend_(std::move(backend)) {}

  const std::string& backend() const override { return description_.name; }
  KvMemory& kv_memory() override { return backend_->kv_memory(); }
  const LlamaConfig& config() const override { return description_.config; }
  Compute compute() const override { return description_.compute; }
  Isa isa() const override { return description_.isa; }
  int threads() const override { return description_.threads; }
  KvGeometry kv_geometry() const override { return description_.geometry; }
  std::uint64_t weight_bytes() const override { return description_.weight_bytes; }
  std::string numerics_id() const override { return description_.numerics_id; }

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

  BackendDescription description_;
  std::unique_ptr<Backend> backend_;
  std::vector<PassPiece> pieces_;
  std::vector<std::size_t> logit_rows_;
};

Status BackendLlama::check(std::span<const SequenceStep> steps, std::size_t logit_rows,
                           std::size_t logits) const {
  if (steps.size() > max_steps)
    return {StatusCode::invalid_argument, std::to_string(steps.size()) +
                                              " sequences in one step, at most " +
                                              std::to_string(max_steps) + " are possible"};
  if (logits != logit_rows * description_.config.vocabulary)
    return {StatusCode::invalid_argument, "room for " + std::to_string(logits) + " logits, need " +
                                              std::to_string(logit_rows) + " x " +
                                              std::to_string(description_.config.vocabulary)};
  for (const SequenceStep& step : steps)
    if (Status status = check_step(step); !status.ok()) return status;
  return {};
}

Status BackendLlama::check_step(const SequenceStep& step) const {
  const auto invalid = [](std::string message) {
    return Status(StatusCode::invalid_argument, std::move(message));
  };
  if (step.tokens.empty()) return invalid("a step without tokens");
  const std::uint64_t end = std::uint64_t{step.first_position} + step.tokens.size();
  if (end > description_.config.context_length)
    return invalid(std::to_string(end) + " tokens are more than the model's context of " +
                   std::to_string(description_.config.context_length));
  for (const Token token : step.tokens)
    if (token < 0 || static_cast<std::uint32_t>(token) >= description_.config.vocabulary)
      return invalid("the token " + std::to_string(token) + " is outside the vocabulary of " +
                     std::to_string(description_.config.vocabulary));
  const std::uint32_t block_tokens = description_.geometry.block_tokens;
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
Status BackendLlama::compute_steps(std::span<const SequenceStep> steps, std::span<float> logits,
                                   bool every_token) {
  float* next_logits = logits.data();
  std::size_t index = 0, done = 0;  // the step, and how many of its tokens were computed
  while (index < steps.size()) {
    pieces_.clear();
    logit_rows_.clear();
    std::size_t rows = 0;
    while (index < steps.size() && rows < description_.max_rows) {
      const SequenceStep& step = steps[index];
      const std::size_t count = std::min(step.tokens.size() - done, description_.max_rows - rows);
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
    if (Status status = backend_->run(pieces_, logit_rows_, next_logits); !status.ok())
      return status;
    next_logits += logit_rows_.size() * description_.config.vocabulary;
  }
  return {};
}

}  // namespace

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

KvGeometry kv_geometry(const LlamaConfig& config, const ModelOptions& options) {
  return {.layers = config.layers,
          .kv_heads = config.kv_heads,
          .head_dim = config.head_dim,
          .block_tokens = options.block_tokens,
          .dtype = options.kv};
}

std::unique_ptr<Llama> Llama::over(BackendDescription description,
                                   std::unique_ptr<Backend> backend) {
  return std::make_unique<BackendLlama>(std::move(description), std::move(backend));
}

}  // namespace terrace::inference
