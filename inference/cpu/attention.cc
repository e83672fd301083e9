#include "inference/cpu/attention.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "core/bytes.h"

namespace terrace::inference {

namespace {

// Of the rows (tokens times heads of a group) that share the keys of a tile: more rows amortise
// reading K and V, fewer keep the scores in the first-level cache.
constexpr std::uint32_t most_tile_rows = 64, most_tile_tokens = 16, least_tile_tokens = 4;
// Enough tiles that threads which take one after the other end together.
constexpr std::size_t tiles_a_thread = 3;

Operand operand_of(const KernelTable& kernels, Compute compute, KvDtype kv) {
  // F32 keys and values are not rounded, so neither is what they are multiplied with.
  return kv == KvDtype::bf16 ? kernels.operand(compute) : Operand::f32;
}

// Consecutive parts of one scratch buffer.
class Carver {
 public:
  explicit Carver(std::byte* memory) : memory_(memory) {}
  template <typename T>
  T* take(std::size_t bytes) {
    std::byte* part = memory_;
    memory_ += round_up(bytes, 64);
    return reinterpret_cast<T*>(part);
  }

 private:
  std::byte* memory_;
};

}  // namespace

AttentionPlan::AttentionPlan(const KernelTable& kernels, Compute compute,
                             const KvGeometry& geometry, std::uint32_t heads, int threads,
                             SharedPrefixes shared)
    : kernels_(kernels),
      operand_(operand_of(kernels, compute, geometry.dtype)),
      geometry_(geometry),
      heads_(heads),
      group_(heads / geometry.kv_heads),
      threads_(static_cast<std::size_t>(threads)),
      shared_(shared),
      next_tile_(std::make_unique<std::atomic<std::uint32_t>[]>(geometry.layers)) {
  assert(heads % geometry.kv_heads == 0);
}

void AttentionPlan::begin(std::span<const AttentionSequence> sequences) {
  sequences_.assign(sequences.begin(), sequences.end());
  for (std::uint32_t layer = 0; layer < geometry_.layers; ++layer) {
    next_tile_[layer].store(0, std::memory_order_relaxed);
  }
  plan_tiles();
  plan_decodes();
}

void AttentionPlan::plan_tiles() {
  tiles_.clear();
  std::uint32_t size = most_tile_tokens;
  while (size > 1 && size * group_ > most_tile_rows) size /= 2;
  for (;; size /= 2) {
    tiles_.clear();
    for (std::uint32_t s = 0; s < sequences_.size(); ++s) {
      const AttentionSequence& sequence = sequences_[s];
      if (sequence.tokens == 1) continue;
      const std::uint32_t end = sequence.first_position + sequence.tokens;
      for (std::uint32_t at = sequence.first_position; at < end;) {
        const std::uint32_t next = std::min(end, at / size * size + size);
        for (std::uint32_t head = 0; head < geometry_.kv_heads; ++head) {
          tiles_.push_back({s, head, at - sequence.first_position, next - at});
        }
        at = next;
      }
    }
    if (tiles_.size() >= tiles_a_thread * threads_ || threads_ == 1 || size <= least_tile_tokens) {
      break;
    }
  }
  const auto work = [this](const Tile& tile) {
    return (sequences_[tile.sequence].first_position + tile.first_token) / chunk_tokens + 1;
  };
  std::stable_sort(tiles_.begin(), tiles_.end(),
                   [&](const Tile& a, const Tile& b) { return work(a) > work(b); });
}

void AttentionPlan::plan_decodes() {
  decodes_.clear();
  decode_chunks_ = 0;
  any_cut_ = false;
  for (std::uint32_t s = 0; s < sequences_.size(); ++s)
    if (sequences_[s].tokens == 1)
      decodes_.push_back(
          {.sequence = s, .end_chunk = sequences_[s].first_position / chunk_tokens + 1});
  plan_shared();
  for (Decode& decode : decodes_) {
    decode.first_in_list = decode_chunks_;
    decode_chunks_ += decode.listed();
  }
  std::size_t slots = 0;
  for (Decode& decode : decodes_) {
    // The end of the part that this sequence's first chunk falls in.
    std::size_t thread = 0;
    while (decode_chunks_ * (thread + 1) / threads_ <= decode.first_in_list) ++thread;
    const std::size_t end = decode_chunks_ * (thread + 1) / threads_;
    decode.own_end = decode.first_chunk + static_cast<std::uint32_t>(std::min<std::size_t>(
                                              decode.listed(), end - decode.first_in_list));
    decode.first_partial = slots;
    slots += decode.end_chunk - decode.own_end;
  }
  any_cut_ = slots != 0;
  const auto grow = [](AlignedBuffer& buffer, std::size_t bytes) {
    if (buffer.size() < bytes) buffer = AlignedBuffer(bytes + bytes / 2);
  };
  grow(states_, decodes_.size() * slot_floats() * sizeof(float));
  grow(partials_, slots * slot_floats() * sizeof(float));
}

void AttentionPlan::plan_shared() {
  shared_runs_.clear();
  shared_tiles_.clear();
  if (shared_ == SharedPrefixes::apart || decodes_.size() < least_sharing_sequences) return;
  // A block that a step writes is nobody else's: whole blocks before it may be shared.
  std::vector<std::span<std::byte* const>> tables;
  for (const Decode& decode : decodes_) {
    const AttentionSequence& sequence = sequences_[decode.sequence];
    tables.push_back(sequence.blocks.first(sequence.first_position / geometry_.block_tokens));
  }
  shared_runs_ = find_shared_runs(tables, least_sharing_sequences);
  for (const std::vector<SharedRun>& runs : shared_runs_) {
    std::vector<SharedTile>& tiles = shared_tiles_.emplace_back();
    std::size_t size = std::max<std::size_t>(1, most_tile_rows / group_);
    for (;; size /= 2) {
      tiles.clear();
      for (const SharedRun& run : runs) {
        const std::span<const std::uint32_t> all(run.sequences);
        // Of nearly the same size: the threads take the same number of them.
        const std::size_t parts = (all.size() + size - 1) / size;
        for (std::size_t part = 0; part < parts; ++part) {
          const std::size_t begin = all.size() * part / parts;
          const std::size_t end = all.size() * (part + 1) / parts;
          for (std::uint32_t head = 0; head < geometry_.kv_heads; ++head)
            tiles.push_back({head, static_cast<std::uint32_t>(run.first_block * geometry_.chunks()),
                             static_cast<std::uint32_t>(run.last_block * geometry_.chunks()),
                             all.subspan(begin, end - begin)});
        }
      }
      if (tiles.size() % threads_ == 0 || tiles.size() >= tiles_a_thread * threads_ ||
          size <= least_tile_tokens)
        break;
    }
    for (const SharedRun& run : runs)
      for (const std::uint32_t decode : run.sequences)
        decodes_[decode].first_chunk =
            static_cast<std::uint32_t>(run.last_block * geometry_.chunks());
  }
}

void AttentionPlan::store_kv(std::uint32_t layer, const float* k, std::size_t ldk, const float* v,
                             std::size_t ldv, Range rows) const {
  StoreKvArgs args{};
  args.kv_heads = geometry_.kv_heads;
  args.head_dim = geometry_.head_dim;
  args.padded_dim = geometry_.padded_head_dim();
  args.head_bytes = geometry_.chunks() * geometry_.tile_bytes();
  args.bf16 = geometry_.dtype == KvDtype::bf16;
  for (const AttentionSequence& sequence : sequences_) {
    const std::size_t begin = std::max(rows.begin, sequence.first_row);
    const std::size_t end = std::min(rows.end, sequence.first_row + sequence.tokens);
    for (std::size_t row = begin; row < end; ++row) {
      const auto position =
          static_cast<std::uint32_t>(sequence.first_position + (row - sequence.first_row));
      std::byte* block = sequence.blocks[position / geometry_.block_tokens];
      const std::uint32_t chunk = position % geometry_.block_tokens / chunk_tokens;
      args.k = k + row * ldk;
      args.v = v + row * ldv;
      args.k_tile = block + geometry_.tile_offset(layer, 0, 0, chunk);
      args.v_tile = block + geometry_.tile_offset(layer, 1, 0, chunk);
      args.token = position % chunk_tokens;
      kernels_.store_kv(args);
    }
  }
}

AttendArgs AttentionPlan::args_of(std::uint32_t layer, const AttentionSequence& sequence) const {
  AttendArgs args{};
  args.padded_dim = geometry_.padded_head_dim();
  args.operand = operand_;
  args.q_pitch = args.padded_dim * operand_bytes(operand_);
  args.blocks = sequence.blocks.data();
  args.chunks_per_block = geometry_.chunks();
  args.k_offset = geometry_.tile_offset(layer, 0, 0, 0);
  args.v_offset = geometry_.tile_offset(layer, 1, 0, 0);
  args.tile_bytes = geometry_.tile_bytes();
  args.head_bytes = args.tile_bytes * args.chunks_per_block;
  args.kv_bf16 = geometry_.dtype == KvDtype::bf16;
  args.scale = static_cast<float>(1.4426950408889634 / std::sqrt(geometry_.head_dim));
  return args;
}

void AttentionPlan::convert_q(const float* q, std::uint32_t first_head, std::uint32_t count,
                              std::byte* to) const {
  const std::size_t padded = geometry_.padded_head_dim();
  for (std::uint32_t head = first_head; head < first_head + count; ++head) {
    kernels_.convert(q + std::size_t{head} * geometry_.head_dim, geometry_.head_dim, padded,
                     operand_, to);
    to += padded * operand_bytes(operand_);
  }
}

void AttentionPlan::attend_tile(TeamMember member, std::uint32_t layer, const Tile& tile,
                                const float* q, std::size_t ld, PreparedRows& out) {
  const AttentionSequence& sequence = sequences_[tile.sequence];
  AttendArgs args = args_of(layer, sequence);
  const std::uint32_t rows = tile.tokens * group_;
  const std::size_t floats = state_floats(args.padded_dim);
  const std::size_t state_bytes = rows * floats * sizeof(float);
  Carver carver(member.scratch(attend_scratch_bytes(rows, args.padded_dim) +
                               rows * (args.q_pitch + 4) + state_bytes + 4 * 64));
  args.scratch = carver.take<std::byte>(attend_scratch_bytes(rows, args.padded_dim));
  auto* operands = carver.take<std::byte>(rows * args.q_pitch);
  auto* positions = carver.take<std::uint32_t>(rows * sizeof(std::uint32_t));
  args.states = carver.take<float>(state_bytes);
  const std::uint32_t first_head = tile.kv_head * group_;
  const std::size_t first_row = sequence.first_row + tile.first_token;
  for (std::uint32_t token = 0; token < tile.tokens; ++token) {
    convert_q(q + (first_row + token) * ld, first_head, group_,
              operands + token * group_ * args.q_pitch);
    std::fill_n(positions + token * group_, group_,
                sequence.first_position + tile.first_token + token);
  }
  args.q = operands;
  args.rows = rows;
  args.positions = positions;
  args.first_head = tile.kv_head;
  args.last_head = tile.kv_head + 1;
  args.first_chunk = 0;
  args.last_chunk = positions[0] / chunk_tokens + 1;
  kernels_.attend(args);
  for (std::uint32_t row = 0; row < rows; ++row) {
    const std::size_t column = (first_head + row % group_) * geometry_.head_dim;
    kernels_.finish_state(
        args.states + row * floats, geometry_.head_dim, out.operand(),
        out.row(first_row + row / group_) + column * operand_bytes(out.operand()));
  }
}

float* AttentionPlan::decode_states(const Decode& decode) const {
  const auto index = static_cast<std::size_t>(&decode - decodes_.data());
  return reinterpret_cast<float*>(states_.data()) + index * slot_floats();
}

void AttentionPlan::attend_shared(TeamMember member, std::uint32_t layer, const SharedTile& tile,
                                  const float* q, std::size_t ld) {
  AttendArgs args = args_of(layer, sequences_[decodes_[tile.decodes[0]].sequence]);
  const auto rows = static_cast<std::uint32_t>(tile.decodes.size() * group_);
  const std::size_t head_floats = group_ * state_floats(args.padded_dim);  // of one sequence
  const std::size_t state_bytes = tile.decodes.size() * head_floats * sizeof(float);
  Carver carver(member.scratch(attend_scratch_bytes(rows, args.padded_dim) +
                               rows * (args.q_pitch + 4) + state_bytes + 4 * 64));
  args.scratch = carver.take<std::byte>(attend_scratch_bytes(rows, args.padded_dim));
  auto* operands = carver.take<std::byte>(rows * args.q_pitch);
  auto* positions = carver.take<std::uint32_t>(rows * sizeof(std::uint32_t));
  args.states = carver.take<float>(state_bytes);
  const auto kept = [&](std::size_t i) {
    return decode_states(decodes_[tile.decodes[i]]) + tile.kv_head * head_floats;
  };
  for (std::size_t i = 0; i < tile.decodes.size(); ++i) {
    const AttentionSequence& sequence = sequences_[decodes_[tile.decodes[i]].sequence];
    convert_q(q + sequence.first_row * ld, tile.kv_head * group_, group_,
              operands + i * group_ * args.q_pitch);
    std::fill_n(positions + i * group_, group_, sequence.first_position);
    if (tile.first_chunk > 0) std::copy_n(kept(i), head_floats, args.states + i * head_floats);
  }
  args.q = operands;
  args.rows = rows;
  args.positions = positions;
  args.first_head = tile.kv_head;
  args.last_head = tile.kv_head + 1;
  args.first_chunk = tile.first_chunk;
  args.last_chunk = tile.last_chunk;
  kernels_.attend(args);
  for (std::size_t i = 0; i < tile.decodes.size(); ++i)
    std::copy_n(args.states + i * head_floats, head_floats, kept(i));
}

// Chunks [first_chunk, last_chunk), all of them before or all of them from own_end on.
void AttentionPlan::attend_part(TeamMember member, std::uint32_t layer, const Decode& decode,
                                std::uint32_t first_chunk, std::uint32_t last_chunk, const float* q,
                                std::size_t ld) {
  const AttentionSequence& sequence = sequences_[decode.sequence];
  AttendArgs args = args_of(layer, sequence);
  Carver carver(member.scratch(attend_scratch_bytes(group_, args.padded_dim) +
                               heads_ * args.q_pitch + group_ * 4 + 3 * 64));
  args.scratch = carver.take<std::byte>(attend_scratch_bytes(group_, args.padded_dim));
  auto* operands = carver.take<std::byte>(heads_ * args.q_pitch);
  auto* positions = carver.take<std::uint32_t>(group_ * sizeof(std::uint32_t));
  convert_q(q + sequence.first_row * ld, 0, heads_, operands);
  std::fill_n(positions, group_, sequence.first_position);
  args.q = operands;
  args.rows = group_;
  args.positions = positions;
  args.first_head = 0;
  args.last_head = geometry_.kv_heads;
  args.first_chunk = first_chunk;
  args.last_chunk = last_chunk;
  if (first_chunk < decode.own_end) {
    args.states = decode_states(decode);
  } else {
    args.states = reinterpret_cast<float*>(partials_.data()) +
                  (decode.first_partial + first_chunk - decode.own_end) * slot_floats();
    args.partial_stride = slot_floats();
  }
  kernels_.attend(args);
}

// Merges what was kept apart and writes the result of the given query heads.
void AttentionPlan::finish_decode(const Decode& decode, std::uint32_t first_head,
                                  std::uint32_t last_head, PreparedRows& out) {
  const std::uint32_t padded_dim = geometry_.padded_head_dim();
  const std::size_t floats = state_floats(padded_dim);
  float* states = decode_states(decode) + first_head * floats;
  for (std::uint32_t chunk = decode.own_end; chunk < decode.end_chunk; ++chunk) {
    const float* partials = reinterpret_cast<const float*>(partials_.data()) +
                            (decode.first_partial + chunk - decode.own_end) * slot_floats() +
                            first_head * floats;
    kernels_.merge_states(states, partials, last_head - first_head, padded_dim);
  }
  std::byte* row = out.row(sequences_[decode.sequence].first_row);
  for (std::uint32_t head = first_head; head < last_head; ++head) {
    kernels_.finish_state(
        states + (head - first_head) * floats, geometry_.head_dim, out.operand(),
        row + std::size_t{head} * geometry_.head_dim * operand_bytes(out.operand()));
  }
}

void AttentionPlan::attend(TeamMember member, std::uint32_t layer, const float* q, std::size_t ld,
                           PreparedRows& out) {
  for (;;) {
    const std::uint32_t index = next_tile_[layer].fetch_add(1, std::memory_order_relaxed);
    if (index >= tiles_.size()) break;
    attend_tile(member, layer, tiles_[index], q, ld, out);
  }

  const auto thread = static_cast<std::size_t>(member.thread());
  for (const std::vector<SharedTile>& tiles : shared_tiles_) {
    for (std::size_t i = thread; i < tiles.size(); i += threads_)
      attend_shared(member, layer, tiles[i], q, ld);
    member.barrier();
  }

  const std::size_t begin = decode_chunks_ * thread / threads_;
  const std::size_t end = decode_chunks_ * (thread + 1) / threads_;
  for (const Decode& decode : decodes_) {
    if (decode.first_in_list + decode.listed() <= begin || decode.first_in_list >= end) continue;
    const auto chunk_at = [&](std::size_t in_list) {
      return decode.first_chunk + static_cast<std::uint32_t>(in_list - decode.first_in_list);
    };
    const std::uint32_t first = chunk_at(std::max(begin, decode.first_in_list));
    const std::uint32_t last = chunk_at(std::min(end, decode.first_in_list + decode.listed()));
    attend_part(member, layer, decode, first, last, q, ld);
    if (last == decode.own_end && decode.own_end == decode.end_chunk)
      finish_decode(decode, 0, heads_, out);
  }
  if (!any_cut_) return;

  member.barrier();
  std::size_t item = 0;  // (cut sequence, kv head): every thread takes its share
  for (const Decode& decode : decodes_) {
    if (decode.own_end == decode.end_chunk) continue;
    for (std::uint32_t head = 0; head < geometry_.kv_heads; ++head, ++item) {
      if (item % threads_ != thread) continue;
      finish_decode(decode, head * group_, (head + 1) * group_, out);
    }
  }
}

}  // namespace terrace::inference
