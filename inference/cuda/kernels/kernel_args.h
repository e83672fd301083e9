// What each kernel is called with and how it is launched: what the kernels and those who launch
// them must agree on. Each takes one struct by value. Pointers are device addresses; activations
// are [row][width], a row a token of the pass.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/kv_layout.h"
#include "inference/cuda/kernels/group.h"

namespace terrace::inference::gpu {

constexpr unsigned row_threads = 256;  // of the kernels with a block of threads a row
constexpr unsigned warp_threads = 32;
constexpr unsigned attend_warps = 4;  // of a block of the attention kernel

// Partial results of attention are made over an absolute grid of so many chunks, chunk by chunk,
// and merged in order, in every cut of the work.
constexpr std::uint32_t span_chunks = 4;
constexpr std::uint32_t span_tokens = span_chunks * chunk_tokens;

// residual[row] = table[tokens[row]]. Grid: rows.
struct EmbedArgs {
  static constexpr const char* name = "terrace_embed";
  const std::int32_t* tokens;
  const Bf16* table;
  float* residual;
  std::uint32_t width;
};

// out[row] = x[source] / sqrt(mean(x[source]^2) + epsilon) * weight, where source is rows[row], or
// row itself if `rows` is null. Grid: rows.
struct RmsNormArgs {
  static constexpr const char* name = "terrace_rms_norm";
  const float* x;
  const float* weight;
  Bf16* out;
  const std::uint32_t* rows;
  std::uint32_t width;
  float epsilon;
};

// y[row] += bias. Grid: rows.
struct AddBiasArgs {
  static constexpr const char* name = "terrace_add_bias";
  float* y;
  const float* bias;
  std::uint32_t width;
};

// out[row][i] = silu(gate) * up of gate_up[row] = {gate, up}. Grid: rows.
struct SiluUpArgs {
  static constexpr const char* name = "terrace_silu_up";
  const float* gate_up;
  Bf16* out;
  std::uint32_t width;  // of the output
};

// Where the KV of a row goes; `chunk` is null for a row that only fills a pass up.
struct RowPlace {
  std::byte* chunk;     // the chunk in its block: layer 0, K, kv head 0
  std::uint32_t token;  // in the chunk
  std::uint32_t position;
};

// The strides of a block of KV (core/kv_layout.h), from a chunk's tile of layer 0, K, kv head 0.
struct KvStrides {
  std::uint64_t head_bytes;   // from a kv head to the next
  std::uint64_t value_bytes;  // from K to V
  std::uint64_t layer_bytes;
};

// Rotates queries and keys of qkv[row] = {queries, keys, values}, rounds them to BF16, puts queries
// into q ([row][head][padded_dim]) and keys and values into the row's place in its block. `angles`
// is [row][2 * rope_dims]: the cosine of each pair twice, then minus its sine and its sine. Grid:
// rows.
struct RopeStoreArgs {
  static constexpr const char* name = "terrace_rope_store";
  const float* qkv;
  const float* angles;
  const RowPlace* places;
  Bf16* q;
  KvStrides strides;
  std::uint32_t layer, heads, kv_heads, head_dim, padded_dim, rope_dims;
};

// Up to 16 queries of one sequence's rows, or of several sequences' that share chunks, over chunks
// [first_chunk, end_chunk). Query m of the item is query (first_query + m) of its list of rows,
// where each row has heads / kv_heads queries of a kv head.
struct AttendItem {
  std::uint32_t rows;  // where its list of rows begins
  std::uint32_t first_query;
  std::uint32_t queries;
  std::uint32_t chunks;       // where the addresses of its sequence's chunks begin
  std::uint32_t first_chunk;  // a multiple of span_chunks
  std::uint32_t end_chunk;
  std::uint32_t partial;  // 1: the one span it has is left as a partial result
};
constexpr std::uint32_t item_queries = 16;

// A partial result of a head: floats {maximum, sum, 2 unused, values[padded_dim]}, values not yet
// divided by the sum.
constexpr std::uint32_t partial_head = 4;
TERRACE_KERNEL_FUNCTION constexpr std::uint32_t partial_floats(std::uint32_t padded_dim) {
  return partial_head + padded_dim;
}

// Attention of the items. An item without `partial` merges its spans in order and writes
// out[row][head][head_dim]; the others leave partials[first_partial[row] + span][head]. Grid:
// items / attend_warps, kv heads; a warp an item.
struct AttendArgs {
  static constexpr const char* name_64 = "terrace_attend_64";
  static constexpr const char* name_128 = "terrace_attend_128";
  static constexpr const char* name_256 = "terrace_attend_256";
  const AttendItem* items;
  const std::uint32_t* item_count;
  const std::uint32_t* rows;
  const std::byte* const* chunks;
  const RowPlace* places;
  const std::uint32_t* first_partial;
  const Bf16* q;
  float* partials;
  Bf16* out;
  KvStrides strides;
  std::uint32_t layer, heads, kv_heads, head_dim, padded_dim;
  float scale;  // log2(e) / sqrt(head_dim)
};

// Merges the partial results of each row that has some, in order. Grid: rows, heads; a warp each.
struct MergeArgs {
  static constexpr const char* name = "terrace_merge";
  const float* partials;
  const std::uint32_t* first_partial;
  const std::uint32_t* partial_count;
  Bf16* out;
  std::uint32_t heads, head_dim, padded_dim;
};

// Copies the first `tokens` tokens of each tile of a block to a zeroed one. A tile is [rows][32
// words] of keys, a word two dims of a token; then values, [16][padded_dim words], a word two
// tokens of a dim. Grid: layers * kv_heads * chunks of the tokens, 2 (K, V).
struct CopyTokensArgs {
  static constexpr const char* name = "terrace_copy_tokens";
  const std::uint32_t* from;
  std::uint32_t* to;
  std::uint32_t tokens, chunks_copied, chunks_per_block, kv_heads, padded_dim;
};

}  // namespace terrace::inference::gpu
