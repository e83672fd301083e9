// Attention of up to 16 queries over chunks of KV, a warp, on tensor cores.
//
// The tiles of core/kv_layout.h are what mma wants as its second factor: a word of a tile of keys
// is two dims of a token, one of values two tokens of a dim. A lane loads 16 bytes, which are words
// of four factors; so tokens and dims are in an order of their own in the fragments, where t is
// lane % 4, j the number of the factor:
//   scores   columns 2t, 2t + 1 of factor j are tokens 8t + j, 8t + 4 + j
//   values   columns 2t, 2t + 1 of factor j are dims   8t + j, 8t + 4 + j of 32
// and what a lane holds of the scores, tokens 8t to 8t + 7, is what it has to hold of the weights
// for the second product: nothing passes between lanes but maxima and sums.
#pragma once

#include "inference/cuda/kernels/kernel_args.h"

namespace terrace::inference::gpu {

// By what an old and a new partial result are scaled when they become one.
struct MergeFactors {
  float maximum, keep_old, take_new;
};
TERRACE_KERNEL_FUNCTION MergeFactors merge_factors(float old_maximum, float new_maximum) {
  const float most = old_maximum > new_maximum ? old_maximum : new_maximum;
  return {most, power_of_two(old_maximum - most), power_of_two(new_maximum - most)};
}
TERRACE_KERNEL_FUNCTION float merged(float old_value, float new_value, const MergeFactors& by) {
  return fmaf(old_value, by.keep_old, new_value * by.take_new);
}

// The queries of an item, and the results so far, as a warp holds them: row g of the fragments is
// half 0, row g + 8 half 1.
template <int dims, class Group>
struct AttendState {
  template <class T>
  using PerThread = typename Group::template PerThread<T>;

  PerThread<float> maximum[2], sum[2];   // sums of a lane's own tokens
  PerThread<float> values[dims / 8][4];  // factor j of 32 dims: [4 * (dim / 32) + j]

  TERRACE_KERNEL_FUNCTION void reset(Group& warp) {
    warp.each([&](unsigned lane) {
      for (int half = 0; half < 2; ++half) {
        maximum[half][lane] = lowest;
        sum[half][lane] = 0;
      }
      TERRACE_UNROLLED for (int i = 0; i < dims / 8; ++i)
          TERRACE_UNROLLED for (int c = 0; c < 4; ++c) values[i][c][lane] = 0;
    });
  }
  TERRACE_KERNEL_FUNCTION void merge(Group& warp, AttendState& later) {
    warp.each([&](unsigned lane) {
      TERRACE_UNROLLED for (int half = 0; half < 2; ++half) {
        const MergeFactors by = merge_factors(maximum[half][lane], later.maximum[half][lane]);
        maximum[half][lane] = by.maximum;
        sum[half][lane] = merged(sum[half][lane], later.sum[half][lane], by);
        TERRACE_UNROLLED for (int i = 0; i < dims / 8; ++i)
            TERRACE_UNROLLED for (int c = 2 * half; c < 2 * half + 2; ++c) values[i][c][lane] =
                merged(values[i][c][lane], later.values[i][c][lane], by);
      }
    });
  }
};

// One chunk of keys and values: online softmax onto `state`.
template <int dims, class Group>
TERRACE_KERNEL_FUNCTION void attend_chunk(
    Group& warp, const AttendArgs& args, const std::byte* keys, std::uint32_t first_token,
    typename Group::template PerThread<std::uint32_t> (&q)[dims / 16][4],
    typename Group::template PerThread<std::uint32_t> (&positions)[2],
    AttendState<dims, Group>& state) {
  using Words = typename Group::template PerThread<Words4>;
  using Word = typename Group::template PerThread<std::uint32_t>;
  using Float = typename Group::template PerThread<float>;
  const std::uint32_t padded = args.padded_dim;
  const std::byte* const values = keys + args.strides.value_bytes;

  Float scores[4][4];
  warp.each([&](unsigned lane) {
    TERRACE_UNROLLED for (int j = 0; j < 4; ++j) TERRACE_UNROLLED for (int c = 0; c < 4; ++c)
        scores[j][c][lane] = 0;
  });
  TERRACE_UNROLLED for (int step = 0; step < dims / 16; ++step) {
    if (static_cast<std::uint32_t>(step) * 16 >= padded) continue;
    Words loaded[2];
    warp.each([&](unsigned lane) {
      TERRACE_UNROLLED for (unsigned part = 0; part < 2; ++part) {
        const unsigned pair = static_cast<unsigned>(step) * 8 + part * 4 + lane % 4;
        loaded[part][lane] = load_words(keys + (pair * chunk_tokens + lane / 4 * 4) * 4);
      }
    });
    TERRACE_UNROLLED for (int j = 0; j < 4; ++j) {
      Word b[2];
      warp.each([&](unsigned lane) {
        b[0][lane] = loaded[0][lane].word[j];
        b[1][lane] = loaded[1][lane].word[j];
      });
      warp.multiply_add(scores[j], q[step], b);
    }
  }

  Float maxima[2];
  warp.each([&](unsigned lane) {
    TERRACE_UNROLLED for (int half = 0; half < 2; ++half) {
      float most = lowest;
      TERRACE_UNROLLED for (int j = 0; j < 4; ++j) TERRACE_UNROLLED for (int c = 0; c < 2; ++c) {
        const std::uint32_t token = first_token + lane % 4 * 8 + static_cast<unsigned>(c * 4 + j);
        float& score = scores[j][2 * half + c][lane];
        score = token <= positions[half][lane] ? score * args.scale : lowest;
        most = score > most ? score : most;
      }
      maxima[half][lane] = most;
    }
  });
  warp.quad_max(maxima[0]);
  warp.quad_max(maxima[1]);

  Word weights[2][4];  // of the two steps of 16 tokens
  warp.each([&](unsigned lane) {
    TERRACE_UNROLLED for (int half = 0; half < 2; ++half) {
      const MergeFactors by = merge_factors(state.maximum[half][lane], maxima[half][lane]);
      float sum = 0;
      TERRACE_UNROLLED for (int j = 0; j < 4; ++j) TERRACE_UNROLLED for (int c = 0; c < 2; ++c) {
        float& score = scores[j][2 * half + c][lane];
        score = score > lowest ? power_of_two(score - by.maximum) : 0;
        sum += score;
      }
      state.maximum[half][lane] = by.maximum;
      state.sum[half][lane] = fmaf(state.sum[half][lane], by.keep_old, sum);
      TERRACE_UNROLLED for (int i = 0; i < dims / 8; ++i)
          TERRACE_UNROLLED for (int c = 2 * half; c < 2 * half + 2; ++c)
              state.values[i][c][lane] *= by.keep_old;
      // Tokens 8t + 2i and 8t + 2i + 1 are pair i of this lane.
      TERRACE_UNROLLED for (int i = 0; i < 4; ++i) weights[i / 2][half + 2 * (i % 2)][lane] =
          to_pair(scores[i % 2 * 2][2 * half + i / 2][lane],
                  scores[i % 2 * 2 + 1][2 * half + i / 2][lane]);
    }
  });

  TERRACE_UNROLLED for (int part = 0; part < dims / 32; ++part) {
    if (static_cast<std::uint32_t>(part) * 32 >= padded) continue;
    TERRACE_UNROLLED for (int step = 0; step < 2; ++step) {
      Words loaded[2];
      warp.each([&](unsigned lane) {
        const unsigned dim = static_cast<unsigned>(part) * 32 + lane / 4 * 4;
        TERRACE_UNROLLED for (unsigned i = 0; i < 2; ++i) {
          const unsigned pair = lane % 4 * 4 + static_cast<unsigned>(step) * 2 + i;
          loaded[i][lane] =
              dim < padded ? load_words(values + (pair * padded + dim) * 4) : Words4{};
        }
      });
      TERRACE_UNROLLED for (int j = 0; j < 4; ++j) {
        Word b[2];
        warp.each([&](unsigned lane) {
          b[0][lane] = loaded[0][lane].word[j];
          b[1][lane] = loaded[1][lane].word[j];
        });
        warp.multiply_add(state.values[4 * part + j], weights[step], b);
      }
    }
  }
}

template <int dims, class Group>
TERRACE_KERNEL_FUNCTION void attend(Group& warp, const AttendArgs& args) {
  using Word = typename Group::template PerThread<std::uint32_t>;
  if (warp.index() >= *args.item_count) return;
  const AttendItem item = args.items[warp.index()];
  const std::uint32_t kv_head = warp.index_y(), group = args.heads / args.kv_heads,
                      padded = args.padded_dim;

  Word q[dims / 16][4], rows[2], heads[2], positions[2], valid[2];
  warp.each([&](unsigned lane) {
    TERRACE_UNROLLED for (int half = 0; half < 2; ++half) {
      const std::uint32_t m = lane / 4 + static_cast<unsigned>(half) * 8;
      const bool real = m < item.queries;
      const std::uint32_t query = item.first_query + (real ? m : 0);
      const std::uint32_t row = args.rows[item.rows + query / group];
      const std::uint32_t head = kv_head * group + query % group;
      valid[half][lane] = real;
      rows[half][lane] = row;
      heads[half][lane] = head;
      positions[half][lane] = args.places[row].position;
      const auto* const from = reinterpret_cast<const std::uint32_t*>(
          args.q + (static_cast<std::uint64_t>(row) * args.heads + head) * padded);
      TERRACE_UNROLLED for (int step = 0; step < dims / 16; ++step)
          TERRACE_UNROLLED for (int part = 0; part < 2; ++part) {
        const std::uint32_t pair = static_cast<unsigned>(step * 8 + part * 4) + lane % 4;
        q[step][half + 2 * part][lane] = pair * 2 < padded ? from[pair] : 0;
      }
    }
  });

  const std::uint64_t offset =
      args.layer * args.strides.layer_bytes + kv_head * args.strides.head_bytes;
  AttendState<dims, Group> total, span;
  for (std::uint32_t first = item.first_chunk; first < item.end_chunk; first += span_chunks) {
    span.reset(warp);
    const std::uint32_t end =
        first + span_chunks < item.end_chunk ? first + span_chunks : item.end_chunk;
    for (std::uint32_t chunk = first; chunk < end; ++chunk)
      attend_chunk<dims>(warp, args, args.chunks[item.chunks + chunk] + offset,
                         chunk * chunk_tokens, q, positions, span);
    // Of each span, as merge_partials() finds it: the cut into items must change no bit.
    warp.quad_sum(span.sum[0]);
    warp.quad_sum(span.sum[1]);
    if (first == item.first_chunk) {
      total = span;
    } else {
      total.merge(warp, span);
    }
  }

  warp.each([&](unsigned lane) {
    TERRACE_UNROLLED for (int half = 0; half < 2; ++half) {
      if (!valid[half][lane]) continue;
      const std::uint32_t row = rows[half][lane], head = heads[half][lane];
      const float sum = total.sum[half][lane];
      float* partial = nullptr;
      if (item.partial) {
        const std::uint64_t slot = args.first_partial[row] + item.first_chunk / span_chunks;
        partial = args.partials + (slot * args.heads + head) * partial_floats(padded);
        if (lane % 4 == 0) {
          partial[0] = total.maximum[half][lane];
          partial[1] = sum;
        }
      }
      Bf16* const out =
          args.out + (static_cast<std::uint64_t>(row) * args.heads + head) * args.head_dim;
      TERRACE_UNROLLED for (int i = 0; i < dims / 8; ++i)
          TERRACE_UNROLLED for (int c = 0; c < 2; ++c) {
        const std::uint32_t dim = static_cast<unsigned>(i / 4 * 32 + c * 4 + i % 4) + lane % 4 * 8;
        const float value = total.values[i][2 * half + c][lane];
        if (item.partial) {
          if (dim < padded) partial[partial_head + dim] = value;
        } else if (dim < args.head_dim) {
          out[dim] = to_bf16(value / sum);
        }
      }
    }
  });
}

template <class Group>
TERRACE_KERNEL_FUNCTION void merge_partials(Group& warp, const MergeArgs& args) {
  const std::uint32_t row = warp.index(), head = warp.index_y();
  const std::uint32_t count = args.partial_count[row];
  const std::uint64_t floats = partial_floats(args.padded_dim), pitch = args.heads * floats;
  const float* const first = args.partials + args.first_partial[row] * pitch + head * floats;
  Bf16* const out =
      args.out + (static_cast<std::uint64_t>(row) * args.heads + head) * args.head_dim;
  if (count == 0) return;
  warp.each([&](unsigned lane) {
    for (std::uint32_t dim = lane; dim < args.head_dim; dim += warp_threads) {
      const float* partial = first;
      float maximum = partial[0], sum = partial[1], value = partial[partial_head + dim];
      for (std::uint32_t i = 1; i < count; ++i) {
        partial += pitch;
        const MergeFactors by = merge_factors(maximum, partial[0]);
        maximum = by.maximum;
        sum = merged(sum, partial[1], by);
        value = merged(value, partial[partial_head + dim], by);
      }
      out[dim] = to_bf16(value / sum);
    }
  });
}

}  // namespace terrace::inference::gpu
