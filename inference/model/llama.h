// A llama-architecture model on the CPU.
//
// The result for a token depends on its own prefix only, never on how the prompt was cut, batched
// or cached: every product sums over k in one fixed order whatever the number of rows, and
// attention makes partial results over an absolute grid of 32 tokens and merges them in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/block_key.h"
#include "core/kv_layout.h"
#include "core/sha256.h"
#include "core/status.h"
#include "inference/cpu/isa.h"
#include "inference/gguf/gguf_file.h"

namespace terrace::inference {

struct ModelOptions {
  Compute compute = Compute::bf16;
  KvDtype kv = KvDtype::bf16;
  int threads = 0;  // 0: one a core that this process may use
  Isa isa = Isa::automatic;
  std::function<void(double fraction)> progress;  // of loading; called on the loading thread
};

struct LlamaConfig {
  std::uint32_t layers = 0, embedding = 0, feed_forward = 0, heads = 0, kv_heads = 0, head_dim = 0,
                rope_dims = 0;
  std::uint32_t context_length = 0, vocabulary = 0;
  float rms_epsilon = 0, rope_base = 10000, rope_linear_factor = 1;
};

// Reads and checks the hyper-parameters: invalid_argument that names the key for another
// architecture, a missing key or an absurd value.
Result<LlamaConfig> read_llama_config(const gguf::File& file);

// The new tokens of one sequence. The KV of tokens [0, first_position) is already in `blocks`.
struct SequenceStep {
  std::span<const Token> tokens;  // at least one
  std::uint32_t first_position = 0;
  // One address a block of the geometry, enough for first_position + tokens.size() tokens; blocks
  // to be written were zeroed once before their first token. Private memory and arenas may mix.
  std::span<std::byte* const> blocks;
};

class Llama {
 public:
  // Loads the weights of `file` (which may be closed afterwards). invalid_argument for a tensor
  // that is missing or has the wrong shape, unimplemented for a type or an instruction set that
  // this machine lacks.
  static Result<std::unique_ptr<Llama>> load(const gguf::File& file, const ModelOptions& options);
  virtual ~Llama() = default;

  virtual const LlamaConfig& config() const = 0;
  virtual Isa isa() const = 0;
  virtual int threads() const = 0;
  virtual KvGeometry kv_geometry() const = 0;

  // Names the arithmetic: compute type, kernel family and generation. Equal ids give equal bits.
  virtual std::string numerics_id() const = 0;

  // Computes the KV of all tokens of all steps and the logits of the last token of each step:
  // `logits` is [steps.size()][vocabulary]. invalid_argument past the context length or for an id
  // outside the vocabulary. One call at a time.
  virtual Status forward(std::span<const SequenceStep> steps, std::span<float> logits) = 0;
  // The same for one sequence with logits of every token: [tokens.size()][vocabulary].
  virtual Status forward_all_logits(const SequenceStep& step, std::span<float> logits) = 0;
};

// SHA-256 tree hash over the weights and hyper-parameters of a file: the model's part of a space.
// Uses `threads` threads.
Digest model_digest(const gguf::File& file, int threads);

}  // namespace terrace::inference
