// What the kernels of an instruction set are called with: plain data, so that nothing compiled
// for that instruction set is shared with the rest of the program. The functions here are static
// for the same reason: the linker must not pick a copy that needs instructions this machine lacks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace terrace::inference {

// How a row of activations is stored for a product.
enum class Operand : std::uint8_t {
  f32,          // as it is
  f32_rounded,  // F32 holding values rounded to BF16
  bf16,         // BF16, read two at a time
};
static constexpr std::size_t operand_bytes(Operand operand) {
  return operand == Operand::bf16 ? 2 : 4;
}

// How a panel of 16 outputs is stored; K is the inputs, padded to a multiple of 32.
//   f32    [K][16]
//   bf16   [K/2][16][2 k]
//   q4_0   d [K/32][16] F16, padded to 64 bytes; nibbles [K/32][4][16 words]
//   q4_1   {d, m} [K/32][2][16] F16;             nibbles as q4_0
//   q8_0   d as q4_0;                            int8 [K/32][32 k][16], or [K/32][16][16][2 k]
// Nibble j of word i of vector z of a block is k = 8z + j of output i, or, where weights are
// paired, k = 2(4z + j/2) + (i & 1) of output (j & 1) * 8 + i/2.
enum class WeightFormat : std::uint8_t { f32, bf16, q4_0, q4_1, q8_0 };

constexpr std::size_t panel_outputs = 16;
constexpr std::size_t block_inputs = 32;

// Bytes of F16 scales at the head of a packed panel.
static constexpr std::size_t scale_bytes(WeightFormat format, std::size_t padded_inputs) {
  const std::size_t blocks = padded_inputs / block_inputs;
  switch (format) {
    case WeightFormat::q4_0:
    case WeightFormat::q8_0:
      return (blocks * 32 + 63) / 64 * 64;
    case WeightFormat::q4_1:
      return blocks * 64;
    default:
      return 0;
  }
}

// Rows of activations times the panels [first_panel, last_panel) of one segment.
struct LinearArgs {
  WeightFormat format;
  const std::byte* panels;
  std::size_t panel_bytes, first_panel, last_panel;
  std::size_t inputs;  // padded
  Operand operand;
  const std::byte* x;
  std::size_t x_pitch, rows;
  // Panel p writes columns [16p, min(16p + 16, outputs)) of y.
  float* y;
  std::size_t ld, outputs;
  bool add;
  std::byte* scratch;
  std::size_t scratch_bytes;  // at least linear_scratch_bytes()
};

// Scratch for expanded panels: some panels in about 192 KiB, and three at least.
static constexpr std::size_t linear_scratch_bytes(std::size_t padded_inputs) {
  constexpr std::size_t wanted = 192 * 1024;
  const std::size_t least = 3 * panel_outputs * padded_inputs * sizeof(float);
  return (least > wanted ? least : wanted) + 4096;
}

// A running or partial result of one row: floats {maximum, 15 unused, 16 sums, values[padded_dim]}.
static constexpr std::size_t state_floats(std::uint32_t padded_dim) { return 32 + padded_dim; }

// Rows of queries over the chunks [first_chunk, last_chunk) of one sequence, for the kv heads
// [first_head, last_head). The rows of a kv head share its keys and values.
struct AttendArgs {
  // Row r of kv head h: q + ((h - first_head) * rows + r) * q_pitch, padded_dim operands.
  const std::byte* q;
  std::size_t q_pitch;
  std::uint32_t rows;
  const std::uint32_t* positions;  // of the rows; each sees tokens up to its position
  Operand operand;

  std::byte* const* blocks;
  std::uint32_t chunks_per_block;
  std::size_t k_offset, v_offset;  // in a block: of this layer, kv head 0, chunk 0
  std::size_t head_bytes;          // from a kv head to the next
  std::size_t tile_bytes;          // from a chunk to the next
  bool kv_bf16;
  std::uint32_t first_head, last_head, first_chunk, last_chunk;
  std::uint32_t padded_dim;
  float scale;  // log2(e) / sqrt(head_dim)

  // States of the rows, indexed like q. With `partial_stride` 0 the chunks are merged in order
  // (chunk 0 starts the state); else chunk c leaves its own result at
  // states + (c - first_chunk) * partial_stride.
  float* states;
  std::size_t partial_stride;
  std::byte* scratch;  // at least attend_scratch_bytes(rows, padded_dim)
};

// A tile of BF16 as F32.
static constexpr std::size_t expanded_tile_bytes(std::size_t padded_dim) {
  return 32 * padded_dim * sizeof(float);
}
static constexpr std::size_t attend_scratch_bytes(std::size_t rows, std::size_t padded_dim) {
  return (rows + 16) * (2 * 32 * sizeof(float) + 16 * sizeof(float) + 4 * sizeof(float)) +
         2 * expanded_tile_bytes(padded_dim);
}

// K and V of one token and layer.
struct StoreKvArgs {
  const float *k, *v;          // [kv_heads][head_dim]
  std::byte *k_tile, *v_tile;  // of kv head 0
  std::size_t head_bytes;
  std::uint32_t kv_heads, head_dim, padded_dim;
  std::uint32_t token;  // in the tile
  bool bf16;
};

}  // namespace terrace::inference
