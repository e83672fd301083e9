// The hyper-parameters of a llama-architecture model, checked.
#pragma once

#include <cstdint>

#include "core/status.h"
#include "inference/gguf/gguf_file.h"

namespace terrace::inference {

// Named limits: a file that asks for more is taken for a broken one. The largest published llama
// models stay below a quarter of each.
constexpr std::uint32_t max_layers = 1024;
constexpr std::uint32_t max_heads = 4096;
constexpr std::uint32_t max_head_dim = 1024;
constexpr std::uint32_t max_embedding = 1u << 17;
constexpr std::uint32_t max_feed_forward = 1u << 20;
constexpr std::uint32_t max_vocabulary = 1u << 22;
constexpr std::uint32_t max_context_length = 1u << 26;

struct LlamaConfig {
  std::uint32_t layers = 0, embedding = 0, feed_forward = 0, heads = 0, kv_heads = 0, head_dim = 0,
                rope_dims = 0;  // the first rope_dims of each head are rotated
  std::uint32_t context_length = 0, vocabulary = 0;
  float rms_epsilon = 0, rope_base = 10000, rope_linear_factor = 1;

  std::uint32_t query_width() const { return heads * head_dim; }
  std::uint32_t kv_width() const { return kv_heads * head_dim; }
};

// Reads and checks the hyper-parameters. invalid_argument that names the key for another
// architecture, a missing key or an absurd value; unimplemented for a variant whose arithmetic is
// not known here (experts, sliding windows, YaRN, layers of different shapes).
Result<LlamaConfig> read_llama_config(const gguf::File& file);

}  // namespace terrace::inference
