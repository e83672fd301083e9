// Attention of some rows of one kv head over chunks of 32 tokens. Every path through the model
// (long prompts, single tokens, split or not) comes through attend_chunk, so that all of them
// round alike.
#pragma once

namespace terrace::inference {
namespace {

constexpr std::size_t chunk_vectors = 2;  // 32 tokens

// Rows times `vectors` vectors of weights (64 bytes each, `vectors` to a step); every sum goes to
// finish(row, vector, sum).
template <class Step, class Finish>
TERRACE_INLINE void products(const std::byte* x, std::size_t x_pitch, std::size_t rows,
                             const std::byte* w, std::size_t vectors, std::size_t steps,
                             Finish&& finish) {
  const std::size_t tiles = (rows + attend_rows - 1) / attend_rows;
  for (std::size_t t = 0; t < tiles; ++t) {
    const std::size_t begin = rows * t / tiles, end = rows * (t + 1) / tiles;
    with_rows<attend_rows>(end - begin, [&]<int R>() {
      constexpr int wide = R * 4 <= attend_sums ? 4 : R * 2 <= attend_sums ? 2 : 1;
      const auto columns = [&]<int V>(std::size_t v) TERRACE_LAMBDA_INLINE {
        Vec sums[R][V];
        clear(sums);
        multiply<Step, R, V>(x + begin * x_pitch, x_pitch, w + v * 64, 64, vectors * 64, steps,
                             sums);
        TERRACE_UNROLL for (int r = 0; r < R; ++r) {
          TERRACE_UNROLL for (int i = 0; i < V; ++i) finish(begin + r, v + i, sums[r][i]);
        }
      };
      std::size_t v = 0;
      for (; v + wide <= vectors; v += wide) columns.template operator()<wide>(v);
      if constexpr (wide > 2) {
        for (; v + 2 <= vectors; v += 2) columns.template operator()<2>(v);
      }
      if constexpr (wide > 1) {
        for (; v < vectors; ++v) columns.template operator()<1>(v);
      }
    });
  }
}

struct ChunkScratch {
  float* scores;                        // [rows][32]
  std::byte* weights;                   // [rows][32] operands
  float* sums;                          // [rows][16]
  float *maxima, *keep_old, *take_new;  // [rows rounded up to 16]

  TERRACE_INLINE ChunkScratch(std::byte* memory, std::size_t rows) {
    const std::size_t padded = (rows + 15) / 16 * 16;
    scores = reinterpret_cast<float*>(memory);
    weights = reinterpret_cast<std::byte*>(scores + rows * 32);
    sums = scores + rows * 64;
    maxima = sums + rows * 16;
    keep_old = maxima + padded;
    take_new = keep_old + padded;
  }
};

// The side with the smaller maximum is scaled by 2^-|difference|, the other by exactly 1.
TERRACE_INLINE void merge_factors(Vec old_maximum, Vec new_maximum, Vec& keep_old, Vec& take_new) {
  const Vec most = max(old_maximum, new_maximum);
  keep_old = exp2_of(old_maximum - most);
  take_new = exp2_of(new_maximum - most);
}

TERRACE_INLINE Vec merged(Vec old_value, Vec keep_old, Vec new_value, Vec take_new) {
  return mul_add(old_value, keep_old, new_value * take_new);
}

template <class Step>
TERRACE_INLINE void attend_chunk(const AttendArgs& args, const std::byte* q, const std::byte* k,
                                 const std::byte* v, std::uint32_t chunk, float* states,
                                 bool first) {
  const std::size_t rows = args.rows, dims = args.padded_dim;
  const std::size_t floats = state_floats(args.padded_dim);
  const ChunkScratch scratch(args.scratch, rows);

  products<Step>(q, args.q_pitch, rows, k, chunk_vectors, dims / Step::inputs,
                 [&](std::size_t row, std::size_t vector, Vec sum) TERRACE_LAMBDA_INLINE {
                   store(scratch.scores + row * 32 + vector * 16, sum);
                 });

  const Vec masked = splat(-1e30f), scale = splat(args.scale);
  const std::size_t weight_pitch = 32 * operand_bytes(args.operand);
  for (std::size_t row = 0; row < rows; ++row) {
    Vec low = load(scratch.scores + row * 32), high = load(scratch.scores + row * 32 + 16);
    const auto visible = static_cast<std::int64_t>(args.positions[row]) - chunk * 32 + 1;
    if (visible < 32) {
      low = keep_first(low, static_cast<int>(visible), masked);
      high = keep_first(high, static_cast<int>(visible) - 16, masked);
    }
    const float most = maximum(max(low, high)) * args.scale;
    scratch.maxima[row] = most;
    const Vec minus_most = splat(-most);
    low = exp2_of(mul_add(low, scale, minus_most));
    high = exp2_of(mul_add(high, scale, minus_most));
    store(scratch.sums + row * 16, low + high);
    std::byte* weights = scratch.weights + row * weight_pitch;
    store_operands(args.operand, weights, low);
    store_operands(args.operand, weights + weight_pitch / 2, high);
  }

  if (first) {
    for (std::size_t row = 0; row < rows; ++row) {
      states[row * floats] = scratch.maxima[row];
      store(states + row * floats + 16, load(scratch.sums + row * 16));
    }
    products<Step>(scratch.weights, weight_pitch, rows, v, dims / 16, 32 / Step::inputs,
                   [&](std::size_t row, std::size_t vector, Vec sum) TERRACE_LAMBDA_INLINE {
                     store(states + row * floats + 32 + vector * 16, sum);
                   });
    return;
  }
  for (std::size_t row = 0; row < rows; ++row) scratch.keep_old[row] = states[row * floats];
  for (std::size_t row = 0; row < rows; row += 16) {
    const Vec old_maximum = load(scratch.keep_old + row), new_maximum = load(scratch.maxima + row);
    Vec keep_old, take_new;
    merge_factors(old_maximum, new_maximum, keep_old, take_new);
    store(scratch.maxima + row, max(old_maximum, new_maximum));
    store(scratch.keep_old + row, keep_old);
    store(scratch.take_new + row, take_new);
  }
  for (std::size_t row = 0; row < rows; ++row) {
    float* state = states + row * floats;
    state[0] = scratch.maxima[row];
    store(state + 16, merged(load(state + 16), splat(scratch.keep_old[row]),
                             load(scratch.sums + row * 16), splat(scratch.take_new[row])));
  }
  products<Step>(scratch.weights, weight_pitch, rows, v, dims / 16, 32 / Step::inputs,
                 [&](std::size_t row, std::size_t vector, Vec sum) TERRACE_LAMBDA_INLINE {
                   float* value = states + row * floats + 32 + vector * 16;
                   store(value, merged(load(value), splat(scratch.keep_old[row]), sum,
                                       splat(scratch.take_new[row])));
                 });
}

template <class Step>
void attend_chunks(const AttendArgs& args) {
  const std::size_t head_floats = args.rows * state_floats(args.padded_dim);
  for (std::uint32_t chunk = args.first_chunk; chunk < args.last_chunk; ++chunk) {
    const std::byte* block = args.blocks[chunk / args.chunks_per_block];
    const std::size_t in_block = chunk % args.chunks_per_block * args.tile_bytes;
    float* states = args.states + (chunk - args.first_chunk) * args.partial_stride;
    const bool first = args.partial_stride != 0 || chunk == 0;
    for (std::uint32_t head = args.first_head; head < args.last_head; ++head) {
      const std::size_t index = head - args.first_head;
      const std::byte* tile = block + in_block + head * args.head_bytes;
      attend_chunk<Step>(args, args.q + index * args.rows * args.q_pitch, tile + args.k_offset,
                         tile + args.v_offset, chunk, states + index * head_floats, first);
    }
  }
}

void attend_kernel(const AttendArgs& args) {
  if (!args.kv_bf16) return attend_chunks<StepF32>(args);
  if (args.operand == Operand::bf16) return attend_chunks<StepPairs>(args);
  return attend_chunks<StepBf16>(args);
}

void merge_states_kernel(float* states, const float* partials, std::size_t rows,
                         std::uint32_t padded_dim) {
  const std::size_t floats = state_floats(padded_dim);
  for (std::size_t row = 0; row < rows; ++row) {
    float* state = states + row * floats;
    const float* partial = partials + row * floats;
    const Vec old_maximum = splat(state[0]), new_maximum = splat(partial[0]);
    Vec keep_old, take_new;
    merge_factors(old_maximum, new_maximum, keep_old, take_new);
    if (partial[0] > state[0]) state[0] = partial[0];
    for (std::size_t i = 16; i < floats; i += 16) {
      store(state + i, merged(load(state + i), keep_old, load(partial + i), take_new));
    }
  }
}

void finish_state_kernel(const float* state, std::uint32_t dims, Operand operand, std::byte* out) {
  const Vec total = splat(sum(load(state + 16)));
  const std::size_t bytes = operand_bytes(operand);
  for (std::size_t i = 0; i < dims; i += 16) {
    store_operands_part(operand, out + i * bytes, load(state + 32 + i) / total, dims - i);
  }
}

void store_kv_kernel(const StoreKvArgs& args) {
  for (std::uint32_t head = 0; head < args.kv_heads; ++head) {
    const float* k = args.k + std::size_t{head} * args.head_dim;
    const float* v = args.v + std::size_t{head} * args.head_dim;
    if (!args.bf16) {
      auto* k_tile = reinterpret_cast<float*>(args.k_tile + head * args.head_bytes);
      auto* v_tile = reinterpret_cast<float*>(args.v_tile + head * args.head_bytes);
      for (std::uint32_t dim = 0; dim < args.head_dim; ++dim) {
        k_tile[dim * 32 + args.token] = k[dim];
        v_tile[args.token * args.padded_dim + dim] = v[dim];
      }
      continue;
    }
    auto* k_tile = reinterpret_cast<std::uint16_t*>(args.k_tile + head * args.head_bytes);
    auto* v_tile = reinterpret_cast<std::uint16_t*>(args.v_tile + head * args.head_bytes);
    for (std::uint32_t begin = 0; begin < args.head_dim; begin += 16) {
      std::uint16_t k16[16], v16[16];
      const std::uint32_t count = args.head_dim - begin < 16 ? args.head_dim - begin : 16;
      store_bf16(k16, load_part(k + begin, count));
      store_bf16(v16, load_part(v + begin, count));
      for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t dim = begin + i;
        k_tile[(dim / 2 * 32 + args.token) * 2 + dim % 2] = k16[i];
        v_tile[(args.token / 2 * args.padded_dim + dim) * 2 + args.token % 2] = v16[i];
      }
    }
  }
}

}  // namespace
}  // namespace terrace::inference
