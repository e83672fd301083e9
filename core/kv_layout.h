// Where the KV of a token lies inside a block. One block is one contiguous run of bytes in every
// tier:
//
//   [layer][K or V][kv_head][chunk of 32 tokens] -> one tile
//
// A tile holds 32 tokens of one (layer, K or V, kv head) in the order that the kernels read it.
// BF16:
//   K [head_dim/2][32 tokens][2 dims]     V [32 tokens/2][head_dim][2 tokens]
// F32:
//   K [head_dim][32 tokens]               V [32 tokens][head_dim]
// so that tokens (K) or dims (V) sit in SIMD lanes and no kernel needs a horizontal sum. head_dim
// is padded with zeros to a multiple of 16.
#pragma once

#include <cstddef>
#include <cstdint>

namespace terrace {

enum class KvDtype : std::uint8_t { bf16, f32 };

constexpr const char* to_string(KvDtype dtype) { return dtype == KvDtype::bf16 ? "bf16" : "f32"; }
constexpr std::size_t kv_dtype_bytes(KvDtype dtype) { return dtype == KvDtype::bf16 ? 2 : 4; }

// The absolute grid on which attention makes partial results, and so the number of tokens of a
// tile.
constexpr std::uint32_t chunk_tokens = 32;
constexpr const char* cpu_layout_id = "cpu-tile32";

struct KvGeometry {
  std::uint32_t layers = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;       // as the model has it
  std::uint32_t block_tokens = 32;  // a multiple of chunk_tokens
  KvDtype dtype = KvDtype::bf16;

  std::uint32_t padded_head_dim() const { return (head_dim + 15) / 16 * 16; }
  std::uint32_t chunks() const { return block_tokens / chunk_tokens; }
  std::size_t tile_bytes() const {
    return std::size_t{chunk_tokens} * padded_head_dim() * kv_dtype_bytes(dtype);
  }
  std::size_t block_bytes() const { return tile_bytes() * chunks() * kv_heads * 2 * layers; }

  // Byte offset inside a block of the tile of `layer`, K (0) or V (1), kv head and chunk.
  std::size_t tile_offset(std::uint32_t layer, std::uint32_t k_or_v, std::uint32_t kv_head,
                          std::uint32_t chunk) const {
    return (((std::size_t{layer} * 2 + k_or_v) * kv_heads + kv_head) * chunks() + chunk) *
           tile_bytes();
  }

  bool operator==(const KvGeometry&) const = default;
};

}  // namespace terrace
