// What the device has to know of a pass beside the weights: which tokens, where their KV goes, and
// who attends to what. Made on the CPU, sent in one copy. Knows nothing of a driver.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/kv_layout.h"
#include "inference/cpu/elementwise.h"
#include "inference/cpu/shared_prefix.h"
#include "inference/cuda/kernels/kernel_args.h"
#include "inference/model/backend.h"
#include "inference/model/llama_config.h"

namespace terrace::inference::gpu {

// A row count that products are prepared for: `rows` or a little more.
std::size_t padded_rows(std::size_t rows);

// The sizes of a pass, each rounded up so that passes of few kinds occur: passes of one shape are
// launched alike (a captured graph of one does for all).
struct PassShape {
  std::size_t rows = 0, logit_rows = 0, items = 0, listed_rows = 0, chunks = 0;
  bool partials = false;

  auto operator<=>(const PassShape&) const = default;
};

// Byte offsets of the parts of what is sent, and all of it.
struct PassLayout {
  std::size_t item_count, tokens, places, first_partial, partial_count, logit_rows, listed_rows,
      items, chunks, angles, bytes;

  PassLayout(const PassShape& shape, std::uint32_t rope_dims);
};

struct PassLimits {
  std::size_t partial_slots = 0;  // room for partial results, of all heads each
  SharedPrefixes shared_prefixes = SharedPrefixes::together;
};

// Attention is cut into items of a warp and kv head: 16 queries over chunks. Few new tokens behind
// a long prefix are cut by spans of chunks, whose partial results are merged later; so are chunks
// that several decoding sequences share, once for the queries of all of them (kernel_args.h). The
// cut changes no bit of a result.
class PassPlan {
 public:
  PassPlan(const LlamaConfig& config, const KvGeometry& geometry, const PassLimits& limits,
           std::vector<double> rope_frequencies);

  // Throws std::bad_alloc.
  void make(std::span<const PassPiece> pieces, std::span<const std::size_t> logit_rows);

  const PassShape& shape() const { return shape_; }
  PassLayout layout() const { return PassLayout(shape_, config_.rope_dims); }
  // What is sent: layout().bytes bytes.
  void write(std::byte* to) const;

  std::span<const AttendItem> items() const { return items_; }

 private:
  struct Piece {
    std::uint32_t first_row, tokens, first_position;
    std::uint32_t chunks;  // where its addresses begin in chunks_
    std::uint32_t shared_spans = 0;
    bool split = false;

    std::uint32_t end() const { return first_position + tokens; }
    std::uint32_t spans() const { return (end() + span_tokens - 1) / span_tokens; }
  };

  void place(const PassPiece& piece);
  bool may_split(const Piece& piece, std::size_t slots_used) const;
  void share(std::span<const PassPiece> pieces);
  void add_items(std::uint32_t rows, std::uint32_t row_count, const Piece& piece,
                 std::uint32_t first_chunk, std::uint32_t end_chunk, bool partial);

  LlamaConfig config_;
  KvGeometry geometry_;
  PassLimits limits_;
  std::uint32_t group_;
  RopeTable rope_;
  std::size_t rope_positions_ = 0;

  PassShape shape_;
  std::vector<Piece> pieces_;
  std::vector<std::int32_t> tokens_;
  std::vector<RowPlace> places_;
  std::vector<std::uint32_t> first_partial_, partial_count_, logit_rows_, listed_rows_;
  std::vector<AttendItem> items_;
  std::vector<std::byte*> chunks_;
};

}  // namespace terrace::inference::gpu
