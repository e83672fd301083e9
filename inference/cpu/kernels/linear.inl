// Linear layers: few rows expand weights in registers, many rows expand some panels into a
// scratch that stays in the second-level cache.
#pragma once

namespace terrace::inference {
namespace {

// Reading ahead: far enough for memory, near enough to be still there when needed.
constexpr std::size_t read_ahead_bytes = 8192;

TERRACE_INLINE void write_panel(const LinearArgs& args, std::size_t panel, std::size_t row,
                                Vec sum) {
  float* y = args.y + row * args.ld + panel * panel_outputs;
  const std::size_t count = args.outputs - panel * panel_outputs;
  if (args.add) sum = load_part(y, count) + sum;
  store_part(y, sum, count);
}

template <int First, int Last, class Function>
TERRACE_INLINE void for_constants(Function&& function) {
  if constexpr (First < Last) {
    function.template operator()<First>();
    for_constants<First + 1, Last>(function);
  }
}

// R rows times P panels, weights expanded in registers.
template <WeightFormat Format, int R, int P>
void few_rows_panels(const LinearArgs& args, std::size_t panel, std::size_t row) {
  using Unpack = Unpacker<Format>;
  using Step = typename Unpack::Step;
  Unpack unpack[P];
  const std::byte* first = args.panels + panel * args.panel_bytes;
  TERRACE_UNROLL for (int p = 0; p < P; ++p) {
    unpack[p].open(first + p * args.panel_bytes, args.inputs);
  }
  const std::size_t blocks = args.inputs / block_inputs;
  const std::size_t ahead_step = P * args.panel_bytes / blocks;
  const std::byte* ahead = first + read_ahead_bytes;
  const std::byte* x = args.x + row * args.x_pitch;
  Vec sums[P][R][1];
  TERRACE_UNROLL for (int p = 0; p < P; ++p) clear(sums[p]);
  for (std::size_t block = 0; block < blocks; ++block) {
    for (std::size_t line = 0; line < ahead_step; line += 64) prefetch(ahead + line);
    ahead += ahead_step;
    TERRACE_UNROLL for (int p = 0; p < P; ++p) unpack[p].begin();
    for (int unit = 0; unit < Unpack::units; ++unit) {
      // A unit of one panel after the other: the processor overlaps them, and fewer values live at
      // once than with panels side by side in every step.
      TERRACE_UNROLL for (int p = 0; p < P; ++p) {
        for_constants<0, Unpack::steps>([&]<int I>() TERRACE_LAMBDA_INLINE {
          const typename Step::Weights weights[1] = {unpack[p].template weights<I>()};
          Step::template run<R, 1>(x + I * Step::operand_bytes, args.x_pitch, weights, sums[p]);
        });
        unpack[p].next();
      }
      x += Unpack::steps * Step::operand_bytes;
    }
  }
  TERRACE_UNROLL for (int r = 0; r < R; ++r) {
    TERRACE_UNROLL for (int p = 0; p < P; ++p) write_panel(args, panel + p, row + r, sums[p][r][0]);
  }
}

template <WeightFormat Format, int R>
void few_rows_of(const LinearArgs& args) {
  constexpr int together = panels_together(R);
  std::size_t panel = args.first_panel;
  for (; panel + together <= args.last_panel; panel += together) {
    few_rows_panels<Format, R, together>(args, panel, 0);
  }
  if constexpr (together > 1) {
    for (; panel < args.last_panel; ++panel) few_rows_panels<Format, R, 1>(args, panel, 0);
  }
}

// Weights of one panel as vectors of steps, one after the other.
template <WeightFormat Format>
void expand_panel(const LinearArgs& args, std::size_t panel, std::byte* out) {
  using Unpack = Unpacker<Format>;
  Unpack unpack;
  unpack.open(args.panels + panel * args.panel_bytes, args.inputs);
  const std::size_t blocks = args.inputs / block_inputs;
  constexpr std::size_t bytes = 64 * Unpack::Step::inputs / Expanded<Format>::Step::inputs;
  for (std::size_t block = 0; block < blocks; ++block) {
    unpack.begin();
    for (int unit = 0; unit < Unpack::units; ++unit) {
      for_constants<0, Unpack::steps>([&]<int I>() TERRACE_LAMBDA_INLINE {
        store_weights(out + I * bytes, unpack.template weights<I>());
      });
      unpack.next();
      out += Unpack::steps * bytes;
    }
  }
}

template <class Step, int R, int P>
void tile(const LinearArgs& args, const std::byte* weights, std::size_t weights_stride,
          std::size_t panel, std::size_t row) {
  Vec sums[R][P];
  clear(sums);
  NoReadAhead ahead;
  multiply<Step, R, P>(args.x + row * args.x_pitch, args.x_pitch, weights, weights_stride, 64,
                       args.inputs / Step::inputs, sums, ahead);
  TERRACE_UNROLL for (int r = 0; r < R; ++r) {
    TERRACE_UNROLL for (int p = 0; p < P; ++p) write_panel(args, panel + p, row + r, sums[r][p]);
  }
}

// All rows times `panels` panels whose expanded weights begin at `weights`.
template <class Step>
void tiles(const LinearArgs& args, const std::byte* weights, std::size_t weights_stride,
           std::size_t first_panel, std::size_t panels) {
  // Tiles of as equal a number of rows as possible: a last tile of one row would wait for itself.
  const std::size_t count = (args.rows + linear_rows - 1) / linear_rows;
  for (std::size_t t = 0; t < count; ++t) {
    const std::size_t begin = args.rows * t / count, end = args.rows * (t + 1) / count;
    with_rows<1, linear_rows>(end - begin, [&]<int R>() {
      std::size_t p = 0;
      for (; p + linear_panels <= panels; p += linear_panels) {
        tile<Step, R, linear_panels>(args, weights + p * weights_stride, weights_stride,
                                     first_panel + p, begin);
      }
      if constexpr (linear_panels > 1) {
        for (; p < panels; ++p) {
          tile<Step, R, 1>(args, weights + p * weights_stride, weights_stride, first_panel + p,
                           begin);
        }
      }
    });
  }
}

template <WeightFormat Format>
void many_rows(const LinearArgs& args) {
  using Step = typename Expanded<Format>::Step;
  // One line more than a panel, so that panels do not fall on the same cache sets.
  const std::size_t stride = args.inputs / Step::inputs * 64 + 64;
  std::size_t together = args.scratch_bytes / stride;
  together = together / linear_panels * linear_panels;
  for (std::size_t panel = args.first_panel; panel < args.last_panel; panel += together) {
    if (together > args.last_panel - panel) together = args.last_panel - panel;
    if constexpr (Expanded<Format>::in_place) {
      tiles<Step>(args, args.panels + panel * args.panel_bytes, args.panel_bytes, panel, together);
    } else {
      for (std::size_t p = 0; p < together; ++p) {
        expand_panel<Format>(args, panel + p, args.scratch + p * stride);
      }
      tiles<Step>(args, args.scratch, stride, panel, together);
    }
  }
}

template <WeightFormat Format>
void linear_format(const LinearArgs& args) {
  // F32 has nothing to expand: its rows, few or many, are multiplied in place.
  if constexpr (Format != WeightFormat::f32) {
    if (args.rows <= few_rows) {
      return with_rows<1, few_rows>(args.rows, [&]<int R>() { few_rows_of<Format, R>(args); });
    }
  }
  many_rows<Format>(args);
}

void linear_kernel(const LinearArgs& args) {
  switch (args.format) {
    case WeightFormat::f32:
      return linear_format<WeightFormat::f32>(args);
    case WeightFormat::bf16:
      return linear_format<WeightFormat::bf16>(args);
    case WeightFormat::q4_0:
      return linear_format<WeightFormat::q4_0>(args);
    case WeightFormat::q4_1:
      return linear_format<WeightFormat::q4_1>(args);
    case WeightFormat::q8_0:
      return linear_format<WeightFormat::q8_0>(args);
  }
}

}  // namespace
}  // namespace terrace::inference
