// Attention of some rows of one kv head over chunks of 32 tokens. Every path through the model
// (long prompts, single tokens, split or not) comes through attend_chunk, so that all of them
// round alike.
#pragma once

namespace terrace::inference {
namespace {

constexpr std::size_t chunk_vectors = 2;  // 32 tokens

// How many vectors of weights a tile of `rows` rows takes at once.
static constexpr std::size_t tile_width(std::size_t rows, std::size_t sums) {
  return rows * 4 <= sums ? 4 : rows * 2 <= sums ? 2 : 1;
}

// Rows times `vectors` vectors of weights (64 bytes each, `vectors` to a step); every sum goes to
// finish(row, vector, sum).
template <class Step, int Least, int Most, int Sums, class Ahead, class Finish>
TERRACE_INLINE void products(const std::byte* x, std::size_t x_pitch, std::size_t rows,
                             const std::byte* w, std::size_t vectors, std::size_t steps,
                             Ahead& ahead, Finish&& finish) {
  const std::size_t tiles = (rows + Most - 1) / Most;
  for (std::size_t t = 0; t < tiles; ++t) {
    const std::size_t begin = rows * t / tiles, end = rows * (t + 1) / tiles;
    with_rows<Least, Most>(end - begin, [&]<int R>() {
      constexpr int wide = static_cast<int>(tile_width(R, Sums));
      const auto columns = [&]<int V>(std::size_t v) TERRACE_LAMBDA_INLINE {
        Vec sums[R][V];
        clear(sums);
        multiply<Step, R, V>(x + begin * x_pitch, x_pitch, w + v * 64, 64, vectors * 64, steps,
                             sums, ahead);
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

// As store_operands, for values in [0, 2] that are 0 or normal.
TERRACE_INLINE void store_probabilities(Operand operand, std::byte* out, Vec x) {
  if (operand == Operand::f32_rounded) {
    store(reinterpret_cast<float*>(out), round_normal(x));
#if TERRACE_PAIRED_WEIGHTS
  } else if (operand == Operand::bf16) {
    store_bf16_normal(out, x);
#endif
  } else {
    store_operands(operand, out, x);
  }
}

// Reads a tile ahead evenly over the loops of products() for at most one tile of rows.
TERRACE_INLINE ReadAhead spread(const std::byte* tile, std::size_t bytes, std::size_t rows,
                                std::size_t vectors, std::size_t steps) {
  const std::size_t width = tile_width(rows, streamed_sums);
  const std::size_t passes = (vectors + width - 1) / width;
  return {tile, tile + bytes, (bytes / 64 + passes * steps - 1) / (passes * steps)};
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
  keep_old = exp2_limited(old_maximum - most);
  take_new = exp2_limited(new_maximum - most);
}

TERRACE_INLINE Vec merged(Vec old_value, Vec keep_old, Vec new_value, Vec take_new) {
  return mul_add(old_value, keep_old, new_value * take_new);
}

// A BF16 tile of keys or values as F32: each step of two k becomes two steps.
TERRACE_INLINE const std::byte* expand_tile(const std::byte* tile, std::size_t vectors,
                                            std::size_t steps, std::byte* out, ReadAhead ahead) {
  for (std::size_t step = 0; step < steps; ++step) {
    ahead.step();
    auto* even = reinterpret_cast<float*>(out + step * 2 * vectors * 64);
    for (std::size_t v = 0; v < vectors; ++v) {
      const Pairs pairs = load_pairs(tile + (step * vectors + v) * 64);
      store(even + v * 16, first_of(pairs));
      store(even + (vectors + v) * 16, second_of(pairs));
    }
  }
  return out;
}

template <class Step, int Least, int Most, int Sums, class Ahead>
TERRACE_INLINE void attend_chunk(const AttendArgs& args, const std::byte* q, const std::byte* k,
                                 const std::byte* v, std::uint32_t chunk, float* states, bool first,
                                 Ahead k_ahead, Ahead v_ahead) {
  const std::size_t rows = args.rows, dims = args.padded_dim;
  const std::size_t floats = state_floats(args.padded_dim);
  const ChunkScratch scratch(args.scratch, rows);

  products<Step, Least, Most, Sums>(
      q, args.q_pitch, rows, k, chunk_vectors, dims / Step::inputs, k_ahead,
      [&](std::size_t row, std::size_t vector, Vec sum)
          TERRACE_LAMBDA_INLINE { store(scratch.scores + row * 32 + vector * 16, sum); });

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
    low = exp2_limited(mul_add(low, scale, minus_most));
    high = exp2_limited(mul_add(high, scale, minus_most));
    store(scratch.sums + row * 16, low + high);
    std::byte* weights = scratch.weights + row * weight_pitch;
    store_probabilities(args.operand, weights, low);
    store_probabilities(args.operand, weights + weight_pitch / 2, high);
  }

  if (first) {
    for (std::size_t row = 0; row < rows; ++row) {
      states[row * floats] = scratch.maxima[row];
      store(states + row * floats + 16, load(scratch.sums + row * 16));
    }
  } else {
    for (std::size_t row = 0; row < rows; ++row) scratch.keep_old[row] = states[row * floats];
    for (std::size_t row = 0; row < rows; row += 16) {
      const Vec old_maximum = load_part(scratch.keep_old + row, rows - row);
      const Vec new_maximum = load_part(scratch.maxima + row, rows - row);
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
  }
  products<Step, Least, Most, Sums>(
      scratch.weights, weight_pitch, rows, v, dims / 16, 32 / Step::inputs, v_ahead,
      [&](std::size_t row, std::size_t vector, Vec sum) TERRACE_LAMBDA_INLINE {
        float* value = states + row * floats + 32 + vector * 16;
        if (!first) {
          sum =
              merged(load(value), splat(scratch.keep_old[row]), sum, splat(scratch.take_new[row]));
        }
        store(value, sum);
      });
}

// How the tiles of a kernel reach its products.
enum class Tiles {
  streamed,  // few rows: straight from memory, the next tile being asked for meanwhile
  in_place,  // many rows: from the cache
  expanded,  // many rows: BF16 made F32 first, once for all rows
};

template <class Step, Tiles Mode>
void attend_chunks(AttendArgs args) {
  const std::size_t dims = args.padded_dim;
  const std::size_t head_floats = args.rows * state_floats(args.padded_dim);
  std::byte* expanded = args.scratch;
  if constexpr (Mode == Tiles::expanded) args.scratch += 2 * expanded_tile_bytes(dims);
  for (std::uint32_t chunk = args.first_chunk; chunk < args.last_chunk; ++chunk) {
    const auto chunk_at = [&](std::uint32_t index) {
      return args.blocks[index / args.chunks_per_block] +
             index % args.chunks_per_block * args.tile_bytes;
    };
    const std::byte* tiles = chunk_at(chunk);
    float* states = args.states + (chunk - args.first_chunk) * args.partial_stride;
    const bool first = args.partial_stride != 0 || chunk == 0;
    for (std::uint32_t head = args.first_head; head < args.last_head; ++head) {
      const std::size_t index = head - args.first_head;
      const std::byte* q = args.q + index * args.rows * args.q_pitch;
      const std::byte* tile = tiles + head * args.head_bytes;
      const std::byte *k = tile + args.k_offset, *v = tile + args.v_offset;
      float* head_states = states + index * head_floats;
      const std::byte* next = tile + args.head_bytes;
      if (head + 1 == args.last_head) {
        next = chunk + 1 < args.last_chunk ? chunk_at(chunk + 1) + args.first_head * args.head_bytes
                                           : tile;
      }
      if constexpr (Mode == Tiles::streamed) {
        attend_chunk<Step, 1, streamed_rows, streamed_sums>(
            args, q, k, v, chunk, head_states, first,
            spread(next + args.k_offset, args.tile_bytes, args.rows, chunk_vectors,
                   dims / Step::inputs),
            spread(next + args.v_offset, args.tile_bytes, args.rows, dims / 16, 32 / Step::inputs));
      } else {
        if constexpr (Mode == Tiles::expanded) {
          // A step of the BF16 tile holds two of the F32 one.
          k = expand_tile(k, chunk_vectors, dims / 2, expanded,
                          {next + args.k_offset, next + args.k_offset + args.tile_bytes, 2});
          v = expand_tile(
              v, dims / 16, 16, expanded + expanded_tile_bytes(dims),
              {next + args.v_offset, next + args.v_offset + args.tile_bytes, dims / 16});
        }
        // More rows than a tile takes are cut evenly, so no tile has less than half of them.
        constexpr int least = Mode == Tiles::expanded ? streamed_rows / 2 : attend_rows / 2;
        attend_chunk<Step, least, attend_rows, attend_sums>(args, q, k, v, chunk, head_states,
                                                            first, NoReadAhead(), NoReadAhead());
      }
    }
  }
}

void attend_kernel(const AttendArgs& args) {
  const bool few = args.rows <= streamed_rows;
  if (!args.kv_bf16) {
    return few ? attend_chunks<StepF32, Tiles::streamed>(args)
               : attend_chunks<StepF32, Tiles::in_place>(args);
  }
  if (args.operand == Operand::bf16) {
    return few ? attend_chunks<StepPairs, Tiles::streamed>(args)
               : attend_chunks<StepPairs, Tiles::in_place>(args);
  }
  return few ? attend_chunks<StepBf16, Tiles::streamed>(args)
             : attend_chunks<StepF32, Tiles::expanded>(args);
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
