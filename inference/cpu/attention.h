// Causal attention over blocks of KV (tiles of core/kv_layout.h).
//
// One arithmetic for every kernel and every cut of the prompt: each chunk of the absolute grid of
// 32 tokens gives a partial result (maximum, sum, weighted values), and partial results are merged
// in order of position. So the output of a token depends on the KV before it only, never on which
// tokens were computed together or by how many threads.
//
// Decoding is done in two phases where several sequences begin with the same blocks: chunks that
// they share are read once for the queries of all of them, then each goes on with its own. The
// state of a row passes from one phase to the next, so that its chunks are still merged in order.
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
#include "inference/cpu/shared_prefix.h"
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

// Fewer sequences than this with one prefix are as quick apart.
constexpr std::size_t least_sharing_sequences = 4;

// The attention of one forward pass: who computes what. Reused from pass to pass.
class AttentionPlan {
 public:
  // `heads` is a multiple of geometry.kv_heads. The scale is 1/sqrt(head_dim).
  AttentionPlan(const KernelTable& kernels, Compute compute, const KvGeometry& geometry,
                std::uint32_t heads, int threads, SharedPrefixes shared = SharedPrefixes::together);

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
  // Tokens of one sequence that a thread computes together for one kv head. A tile lies inside a
  // chunk, so all its rows see the same chunks.
  struct Tile {
    std::uint32_t sequence, kv_head, first_token, tokens;
  };
  // A sequence with one new token. The chunks from first_chunk on of all of them form one list that
  // is cut into equal parts, one a thread. The thread that has first_chunk of a sequence merges on
  // from there up to own_end; the results of the chunks after that are kept apart and merged at
  // the end, in order, so that the cut does not show in the result.
  struct Decode {
    std::uint32_t sequence;
    std::uint32_t first_chunk = 0;  // those before it were shared
    std::uint32_t end_chunk = 0;
    std::uint32_t own_end = 0;
    std::size_t first_in_list = 0;
    std::size_t first_partial = 0;  // index of a slot of partials_

    std::uint32_t listed() const { return end_chunk - first_chunk; }
  };
  // Chunks of one kv head that some decoding sequences share, and their queries.
  struct SharedTile {
    std::uint32_t kv_head, first_chunk, last_chunk;
    std::span<const std::uint32_t> decodes;  // indices, into shared_runs_
  };

  void plan_tiles();
  void plan_decodes();
  void plan_shared();
  void attend_shared(TeamMember member, std::uint32_t layer, const SharedTile& tile, const float* q,
                     std::size_t ld);
  void attend_tile(TeamMember member, std::uint32_t layer, const Tile& tile, const float* q,
                   std::size_t ld, PreparedRows& out);
  void attend_part(TeamMember member, std::uint32_t layer, const Decode& decode,
                   std::uint32_t first_chunk, std::uint32_t last_chunk, const float* q,
                   std::size_t ld);
  void finish_decode(const Decode& decode, std::uint32_t first_head, std::uint32_t last_head,
                     PreparedRows& out);
  AttendArgs args_of(std::uint32_t layer, const AttentionSequence& sequence) const;
  // Heads [first_head, first_head + count) of row `row` of q as operands, `pitch` apart.
  void convert_q(const float* q, std::uint32_t first_head, std::uint32_t count,
                 std::byte* to) const;
  float* decode_states(const Decode& decode) const;
  std::size_t slot_floats() const { return heads_ * state_floats(geometry_.padded_head_dim()); }

  const KernelTable& kernels_;
  Operand operand_;  // of queries and weights
  KvGeometry geometry_;
  std::uint32_t heads_, group_;
  std::size_t threads_;
  SharedPrefixes shared_;

  std::vector<AttentionSequence> sequences_;
  std::vector<Tile> tiles_;
  std::vector<Decode> decodes_;
  std::vector<std::vector<SharedRun>> shared_runs_;    // by level
  std::vector<std::vector<SharedTile>> shared_tiles_;  // likewise; a level needs the one before
  std::size_t decode_chunks_ = 0;
  bool any_cut_ = false;
  AlignedBuffer states_, partials_;
  std::unique_ptr<std::atomic<std::uint32_t>[]> next_tile_;  // of each layer
};

}  // namespace terrace::inference
