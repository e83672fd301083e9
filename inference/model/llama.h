// A llama-architecture model, on the CPU or another backend.
//
// The result for a token depends on its own prefix only, never on how the prompt was cut, batched
// or cached: every product sums over k in one fixed order whatever the number of rows, and
// attention makes partial results over an absolute grid of tokens and merges them in order. (On a
// GPU the products are a library's, which does not promise it: docs/architecture.md.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/block_key.h"
#include "core/kv_layout.h"
#include "core/status.h"
#include "inference/cpu/isa.h"
#include "inference/cpu/shared_prefix.h"
#include "inference/gguf/gguf_file.h"
#include "inference/model/backend.h"
#include "inference/model/llama_config.h"

namespace terrace::inference {

// What computes a model: load_model (inference/worker/backend.h) looks at it.
struct BackendChoice {
  enum class Kind { cpu, cuda, automatic };  // automatic: a GPU if there is one that can be used
  Kind kind = Kind::cpu;
  int ordinal = 0;  // of the GPU
};

struct ModelOptions {
  BackendChoice backend;
  Compute compute = Compute::bf16;
  KvDtype kv = KvDtype::bf16;
  std::uint32_t block_tokens = 32;  // of kv_geometry(): a multiple of chunk_tokens
  int threads = 0;                  // 0: one a core that this process may use
  Isa isa = Isa::automatic;
  SharedPrefixes shared_prefixes = SharedPrefixes::together;
  std::function<void(double fraction)> progress;  // of loading; called on the loading thread
  // A line for people before loading: what a GPU's memory will hold.
  std::function<void(const std::string&)> notice;
};

// invalid_argument that names an absurd option; unimplemented for an instruction set that is not
// there.
Status check_options(const ModelOptions& options);
// Where the KV of a model lies in its blocks.
KvGeometry kv_geometry(const LlamaConfig& config, const ModelOptions& options);

// The new tokens of one sequence. The KV of tokens [0, first_position) is already in `blocks`.
struct SequenceStep {
  std::span<const Token> tokens;  // at least one
  std::uint32_t first_position = 0;
  // One address a block of the geometry, aligned to 64 bytes, enough for first_position +
  // tokens.size() tokens; blocks to be written were zeroed once before their first token. Private
  // memory and arenas may mix. No block that one step writes may be in another step.
  std::span<std::byte* const> blocks;
};

// More steps than this in one call are refused.
constexpr std::size_t max_steps = 4096;
// Tokens that go through the layers together; a longer call is cut. It bounds the memory of
// activations, and changes no bit of the result.
constexpr std::size_t max_pass_tokens = 512;

class Llama {
 public:
  // Loads the model for the CPU: the weights of `file` (which may be closed afterwards), on all
  // threads of the options. invalid_argument for a tensor that is missing or has the wrong shape or
  // an absurd option, unimplemented for a type, a variant or an instruction set that is not there,
  // resource_exhausted if memory is short.
  static Result<std::unique_ptr<Llama>> load(const gguf::File& file, const ModelOptions& options);
  // The model that `backend` computes.
  static std::unique_ptr<Llama> over(BackendDescription description,
                                     std::unique_ptr<Backend> backend);
  virtual ~Llama() = default;

  // "cpu", or the device's name.
  virtual const std::string& backend() const = 0;
  // Where the blocks of its KV lie.
  virtual KvMemory& kv_memory() = 0;

  virtual const LlamaConfig& config() const = 0;
  virtual Compute compute() const = 0;
  virtual Isa isa() const = 0;  // never automatic
  virtual int threads() const = 0;
  virtual KvGeometry kv_geometry() const = 0;
  // Memory held by the weights.
  virtual std::uint64_t weight_bytes() const = 0;

  // Names the arithmetic: compute type, kernel family and generation. Equal ids give equal bits.
  virtual std::string numerics_id() const = 0;

  // Computes the KV of all tokens of all steps and the logits of the last token of each step:
  // `logits` is [steps.size()][vocabulary]. invalid_argument past the context length, for an id
  // outside the vocabulary or for blocks that are too few; then nothing was written. One call at a
  // time, from any thread.
  virtual Status forward(std::span<const SequenceStep> steps, std::span<float> logits) = 0;
  // The same for one sequence with logits of every token: [tokens.size()][vocabulary].
  virtual Status forward_all_logits(const SequenceStep& step, std::span<float> logits) = 0;
};

}  // namespace terrace::inference
