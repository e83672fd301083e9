#include "inference/cpu/linear.h"

#include <algorithm>
#include <cstring>

#include "core/bytes.h"

namespace terrace::inference {

PreparedRows::PreparedRows(const KernelTable& kernels, Compute compute, std::size_t inputs,
                           std::size_t capacity_rows)
    : operand_(kernels.operand(compute)), inputs_(inputs) {
  // An odd number of cache lines a row keeps the rows of a tile off each other's cache sets.
  const std::size_t lines = (round_up(inputs, block_inputs) * operand_bytes(operand_) + 63) / 64;
  pitch_bytes_ = (lines | 1) * 64;
  reserve(capacity_rows);
}

void PreparedRows::reserve(std::size_t rows) {
  if (rows <= capacity_rows_) return;
  data_ = AlignedBuffer(rows * pitch_bytes_);
  std::memset(data_.data(), 0, data_.size());
  capacity_rows_ = rows;
}

void prepare_rows(const KernelTable& kernels, const float* x, std::size_t ld, Range rows,
                  PreparedRows& out) {
  const std::size_t padded = round_up(out.inputs(), block_inputs);
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    kernels.convert(x + r * ld, out.inputs(), padded, out.operand(), out.row(r));
  }
}

void linear(TeamMember member, const KernelTable& kernels, const PackedMatrix& matrix,
            const PreparedRows& x, std::size_t first_row, std::size_t rows, float* y,
            std::size_t ld, LinearOutput output) {
  if (rows == 0) return;
  const std::size_t panels = (matrix.outputs() + panel_outputs - 1) / panel_outputs;
  const Range mine = split(panels, member);
  LinearArgs args{};
  args.inputs = round_up(matrix.inputs(), block_inputs);
  args.operand = x.operand();
  args.x = x.row(first_row);
  args.x_pitch = x.pitch_bytes();
  args.rows = rows;
  args.ld = ld;
  args.add = output == LinearOutput::add;
  args.scratch_bytes = linear_scratch_bytes(args.inputs);
  args.scratch = member.scratch(args.scratch_bytes);
  for (const PackedMatrix::Segment& segment : matrix.segments()) {
    const std::size_t begin = std::max(mine.begin, segment.first_panel);
    const std::size_t end = std::min(mine.end, segment.first_panel + segment.panels);
    if (begin >= end) continue;
    args.format = segment.format;
    args.panels = segment.data.data();
    args.panel_bytes = segment.panel_bytes;
    args.first_panel = begin - segment.first_panel;
    args.last_panel = end - segment.first_panel;
    const std::size_t first_output = segment.first_panel * panel_outputs;
    args.y = y + first_output;
    args.outputs = matrix.outputs() - first_output;
    kernels.linear(args);
  }
}

}  // namespace terrace::inference
