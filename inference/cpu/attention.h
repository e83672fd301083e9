// Causal attention over blocks of KV (tiles of core/kv_layout.h).
//
// One arithmetic for every kernel and every cut of the prompt: each chunk of the absolute grid of
// 32 tokens gives a partial result (maximum, sum, weighted values), and partial results are merged
// in order of position. So the output of a token depends on the KV before it only, never on which
// tokens were computed together or by how many threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/kv_layout.h"
#include "inference/cpu/aligned_buffer.h"
#include "inference/cpu/isa.h"
#include "inference/cpu/kernel_table.h"
#include "inference/cpu/linear.h"
#include "inference/cpu/team.h"

namespace terrace::inference {

// New tokens of one sequence: rows [first_row, first_row + tokens) of the step's activations.
struct AttentionSequence {
  std::size_t first_row = 0;
  std::uint32_t tokens = 0;  // at least one
  std::uint32_t first_position = 0;
  // Addresses of the blocks of positions [0, first_position + tokens), 64-byte aligned. The KV
  // before first_position is there; blocks that will be written were zeroed before first use.
  std::span<std::byte* const> blocks;
};

// The attention of one forward pass: who computes what. Reused from pass to pass.
class AttentionPlan {
 public:
  // `heads` is a multiple of geometry.kv_heads. The scale is 1/sqrt(head_dim).
  AttentionPlan(const KernelTable& kernels, Compute compute, const KvGeometry& geometry,
                std::uint32_t heads, int threads);

  // Before the pass, by one thread. Copies the sequences; their block tables must live through it.
  void begin(std::span<const AttentionSequence> sequences);

  // Writes K and V of rows [rows.begin, rows.end) into their blocks. k and v are [row][ld] with
  // kv_heads * head_dim values a row, K after RoPE. Called by any thread for any rows.
  void store_kv(std::uint32_t layer, const float* k, std::size_t ldk, const float* v,
                std::size_t ldv, Range rows) const;

  // The attention of all rows: q is [row][ld] with heads * head_dim values a row, after RoPE;
  // out.row(r) gets heads * head_dim values in the form of a linear layer's input. Called by
  // every thread of the team (of the size given to the constructor) after the barrier that ends
  // store_kv, once a layer and pass. It may pass barriers itself; `out` is complete after the
  // caller's next barrier.
  void attend(TeamMember member, std::uint32_t layer, const float* q, std::size_t ld,
              PreparedRows& out);

 private:
  struct Tile;  // tokens of one kv head that are computed together
  struct DecodeRange;

  const KernelTable& kernels_;
  Compute compute_;
  KvGeometry geometry_;
  std::uint32_t heads_;
  int threads_;
};

}  // namespace terrace::inference
