#include "inference/cuda/pass_plan.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace terrace::inference::gpu {

namespace {

// Pieces of more queries of a kv head than this fill the device without being cut.
constexpr std::size_t max_split_queries = 128;
// From so many sequences on, their common chunks are read once: two are half the reading.
constexpr std::size_t least_sharing = 2;

std::size_t round_to(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

template <typename T>
void write_part(std::byte* to, const std::vector<T>& values) {
  if (!values.empty()) std::memcpy(to, values.data(), values.size() * sizeof(T));
}

}  // namespace

std::size_t padded_rows(std::size_t rows) {
  if (rows <= 16) return std::bit_ceil(rows);
  return rows <= 128 ? round_to(rows, 16) : round_to(rows, 64);
}

PassLayout::PassLayout(const PassShape& shape, std::uint32_t rope_dims) {
  std::size_t at = 0;
  const auto take = [&](std::size_t size) {
    constexpr std::size_t alignment = 16;
    return std::exchange(at, round_to(at + size, alignment));
  };
  item_count = take(sizeof(std::uint32_t));
  tokens = take(shape.rows * sizeof(std::int32_t));
  places = take(shape.rows * sizeof(RowPlace));
  first_partial = take(shape.rows * sizeof(std::uint32_t));
  partial_count = take(shape.rows * sizeof(std::uint32_t));
  logit_rows = take(shape.logit_rows * sizeof(std::uint32_t));
  listed_rows = take(shape.listed_rows * sizeof(std::uint32_t));
  items = take(shape.items * sizeof(AttendItem));
  chunks = take(shape.chunks * sizeof(std::byte*));
  angles = take(shape.rows * 2 * rope_dims * sizeof(float));
  bytes = at;
}

PassPlan::PassPlan(const LlamaConfig& config, const KvGeometry& geometry, const PassLimits& limits,
                   std::vector<double> rope_frequencies)
    : config_(config),
      geometry_(geometry),
      limits_(limits),
      group_(config.heads / config.kv_heads),
      rope_(std::move(rope_frequencies)) {}

void PassPlan::make(std::span<const PassPiece> pieces, std::span<const std::size_t> logit_rows) {
  pieces_.clear();
  tokens_.clear();
  places_.clear();
  items_.clear();
  chunks_.clear();
  listed_rows_.clear();
  for (const PassPiece& piece : pieces) place(piece);
  const std::size_t rows = places_.size(), padded = padded_rows(rows);

  // In strides, so that decoding does not grow the table token by token.
  constexpr std::size_t stride = 1024;
  std::size_t positions = 1;
  for (const Piece& piece : pieces_) positions = std::max<std::size_t>(positions, piece.end());
  if (positions > rope_positions_) {
    rope_.ensure(round_to(positions, stride));
    rope_positions_ = round_to(positions, stride);
  }

  first_partial_.assign(padded, 0);
  partial_count_.assign(padded, 0);
  std::size_t slots = 0;
  for (Piece& piece : pieces_) {
    piece.split = may_split(piece, slots);
    if (!piece.split) continue;
    for (std::uint32_t i = 0; i < piece.tokens; ++i) {
      first_partial_[piece.first_row + i] = static_cast<std::uint32_t>(slots);
      partial_count_[piece.first_row + i] = (piece.first_position + i) / span_tokens + 1;
      slots += piece.spans();
    }
  }
  // The rows in order are the list of every piece by itself.
  for (std::uint32_t row = 0; row < rows; ++row) listed_rows_.push_back(row);
  if (limits_.shared_prefixes == SharedPrefixes::together) share(pieces);
  for (const Piece& piece : pieces_) {
    const std::uint32_t end_chunk = (piece.end() + chunk_tokens - 1) / chunk_tokens;
    if (!piece.split) {
      add_items(piece.first_row, piece.tokens, piece, 0, end_chunk, false);
      continue;
    }
    for (std::uint32_t span = piece.shared_spans; span < piece.spans(); ++span)
      add_items(piece.first_row, piece.tokens, piece, span * span_chunks,
                std::min(end_chunk, (span + 1) * span_chunks), true);
  }

  logit_rows_.assign(logit_rows.begin(), logit_rows.end());
  shape_ = {.rows = padded,
            .logit_rows = logit_rows.empty() ? 0 : padded_rows(logit_rows.size()),
            .items = std::bit_ceil(std::max<std::size_t>(items_.size(), attend_warps)),
            .listed_rows = std::bit_ceil(listed_rows_.size()),
            .chunks = std::bit_ceil(chunks_.size()),
            .partials = slots > 0};
  // What fills up: rows whose KV goes nowhere, logits that nobody reads.
  tokens_.resize(shape_.rows);
  places_.resize(shape_.rows);
  logit_rows_.resize(shape_.logit_rows);
}

void PassPlan::place(const PassPiece& piece) {
  const Piece placed{.first_row = static_cast<std::uint32_t>(places_.size()),
                     .tokens = static_cast<std::uint32_t>(piece.tokens.size()),
                     .first_position = piece.first_position,
                     .chunks = static_cast<std::uint32_t>(chunks_.size())};
  const std::uint32_t chunks = (placed.end() + chunk_tokens - 1) / chunk_tokens;
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk)
    chunks_.push_back(piece.blocks[chunk / geometry_.chunks()] +
                      chunk % geometry_.chunks() * geometry_.tile_bytes());
  for (std::uint32_t i = 0; i < placed.tokens; ++i) {
    const std::uint32_t position = placed.first_position + i;
    tokens_.push_back(piece.tokens[i]);
    places_.push_back({.chunk = chunks_[placed.chunks + position / chunk_tokens],
                       .token = position % chunk_tokens,
                       .position = position});
  }
  pieces_.push_back(placed);
}

bool PassPlan::may_split(const Piece& piece, std::size_t slots_used) const {
  return piece.spans() > 1 && piece.tokens * group_ <= max_split_queries &&
         slots_used + std::size_t{piece.tokens} * piece.spans() <= limits_.partial_slots;
}

// Whole spans that decoding sequences share, in items of the queries of all of them.
void PassPlan::share(std::span<const PassPiece> pieces) {
  std::vector<std::span<std::byte* const>> tables;
  std::vector<std::uint32_t> sequences;
  for (std::uint32_t i = 0; i < pieces_.size(); ++i) {
    if (!pieces_[i].split || pieces_[i].tokens != 1) continue;
    // A block that a step writes is nobody else's: whole blocks before it may be shared.
    tables.push_back(pieces[i].blocks.first(pieces_[i].first_position / geometry_.block_tokens));
    sequences.push_back(i);
  }
  for (const std::vector<SharedRun>& level : find_shared_runs(tables, least_sharing))
    for (const SharedRun& run : level) {
      const Piece& first = pieces_[sequences[run.sequences.front()]];
      const std::uint32_t begin = first.shared_spans;
      const auto end =
          static_cast<std::uint32_t>(run.last_block * geometry_.block_tokens / span_tokens);
      if (end <= begin) continue;
      const auto list = static_cast<std::uint32_t>(listed_rows_.size());
      for (const std::uint32_t sequence : run.sequences)
        listed_rows_.push_back(pieces_[sequences[sequence]].first_row);
      for (std::uint32_t span = begin; span < end; ++span)
        add_items(list, static_cast<std::uint32_t>(run.sequences.size()), first, span * span_chunks,
                  (span + 1) * span_chunks, true);
      for (const std::uint32_t sequence : run.sequences)
        pieces_[sequences[sequence]].shared_spans = end;
    }
}

void PassPlan::add_items(std::uint32_t rows, std::uint32_t row_count, const Piece& piece,
                         std::uint32_t first_chunk, std::uint32_t end_chunk, bool partial) {
  const std::uint32_t queries = row_count * group_;
  for (std::uint32_t query = 0; query < queries; query += item_queries) {
    const std::uint32_t count = std::min(item_queries, queries - query);
    // None of them sees what lies behind the last one. (Rows of several sequences see all.)
    const std::uint32_t last_row = listed_rows_[rows + (query + count - 1) / group_];
    const std::uint32_t seen = places_[last_row].position / chunk_tokens + 1;
    if (seen <= first_chunk) continue;
    items_.push_back({.rows = rows,
                      .first_query = query,
                      .queries = count,
                      .chunks = piece.chunks,
                      .first_chunk = first_chunk,
                      .end_chunk = std::min(end_chunk, seen),
                      .partial = partial ? 1u : 0u});
  }
}

void PassPlan::write(std::byte* to) const {
  const PassLayout at = layout();
  const auto count = static_cast<std::uint32_t>(items_.size());
  std::memcpy(to + at.item_count, &count, sizeof count);
  write_part(to + at.tokens, tokens_);
  write_part(to + at.places, places_);
  write_part(to + at.first_partial, first_partial_);
  write_part(to + at.partial_count, partial_count_);
  write_part(to + at.logit_rows, logit_rows_);
  write_part(to + at.listed_rows, listed_rows_);
  write_part(to + at.items, items_);
  write_part(to + at.chunks, chunks_);
  const std::size_t row_floats = 2 * std::size_t{config_.rope_dims};
  for (std::size_t row = 0; row < places_.size(); ++row)
    std::memcpy(to + at.angles + row * row_floats * sizeof(float), rope_.row(places_[row].position),
                row_floats * sizeof(float));
}

}  // namespace terrace::inference::gpu
