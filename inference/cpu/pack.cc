// From the rows of GGUF tensors to panels of 16 outputs (the formats are drawn in kernel_args.h).
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <optional>

#include "core/bytes.h"
#include "inference/cpu/linear.h"

namespace terrace::inference {

namespace {

using gguf::Tensor;
using gguf::TensorType;

std::uint16_t bf16_of(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits | 0x400000) >> 16);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// F16 as a double, which holds sums of a few of them exactly.
double f16_of(const std::byte* at) {
  const auto bits = load_le<std::uint16_t>(at);
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value;
  if (exponent == 31) {
    value = fraction != 0 ? std::nan("") : INFINITY;
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else {
    value = std::ldexp(1024 + fraction, exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

bool stays_packed(TensorType type) {
  return type == TensorType::q4_0 || type == TensorType::q4_1 || type == TensorType::q8_0;
}

WeightFormat packed_format(TensorType type) {
  switch (type) {
    case TensorType::q4_0:
      return WeightFormat::q4_0;
    case TensorType::q4_1:
      return WeightFormat::q4_1;
    default:
      return WeightFormat::q8_0;
  }
}

// Whether the kernels' way of expanding is exact: no scale is infinite or NaN.
bool has_finite_scales(const Tensor& tensor) {
  const std::size_t block = gguf::block_shape(tensor.type).bytes;
  for (std::size_t at = 0; at + block <= tensor.data.size(); at += block) {
    if (!std::isfinite(f16_of(tensor.data.data() + at))) return false;
    if (tensor.type == TensorType::q4_1 && !std::isfinite(f16_of(tensor.data.data() + at + 2))) {
      return false;
    }
  }
  return true;
}

WeightFormat format_of(Compute compute, const Tensor& tensor) {
  if (compute == Compute::f32) return WeightFormat::f32;
  if (!stays_packed(tensor.type) || !has_finite_scales(tensor)) return WeightFormat::bf16;
  return packed_format(tensor.type);
}

std::size_t panel_bytes_of(WeightFormat format, std::size_t inputs) {
  switch (format) {
    case WeightFormat::f32:
      return inputs * panel_outputs * 4;
    case WeightFormat::bf16:
      return inputs * panel_outputs * 2;
    case WeightFormat::q8_0:
      return scale_bytes(format, inputs) + inputs * panel_outputs;
    default:
      return scale_bytes(format, inputs) + inputs * panel_outputs / 2;
  }
}

// One output of a panel, from values in floats.
void place_expanded(WeightFormat format, const std::vector<float>& row, std::size_t output,
                    std::byte* panel) {
  for (std::size_t k = 0; k < row.size(); ++k) {
    if (format == WeightFormat::f32) {
      store_le(panel + (k * panel_outputs + output) * 4, row[k]);
    } else {
      store_le(panel + (k / 2 * panel_outputs + output) * 4 + k % 2 * 2, bf16_of(row[k]));
    }
  }
}

// One output of a panel, from blocks of Q4_0, Q4_1 or Q8_0.
void place_packed(WeightFormat format, bool paired, const std::byte* row, std::size_t inputs,
                  std::size_t output, std::byte* panel) {
  const bool has_offset = format == WeightFormat::q4_1;
  const std::size_t scales = has_offset ? 2 : 1;
  std::byte* values = panel + scale_bytes(format, inputs);
  for (std::size_t block = 0; block < inputs / block_inputs; ++block) {
    for (std::size_t i = 0; i < scales; ++i) {
      std::memcpy(panel + ((block * scales + i) * panel_outputs + output) * 2, row + 2 * i, 2);
    }
    row += 2 * scales;
    if (format == WeightFormat::q8_0) {
      for (std::size_t k = 0; k < block_inputs; ++k) {
        const std::size_t at =
            paired ? (k / 2 * panel_outputs + output) * 2 + k % 2 : k * panel_outputs + output;
        values[at] = row[k];
      }
      row += 32;
      values += 512;
      continue;
    }
    for (std::size_t k = 0; k < block_inputs; ++k) {
      const auto byte = std::to_integer<unsigned>(row[k % 16]);
      const unsigned nibble = k < 16 ? byte & 15 : byte >> 4;
      // Vector of 16 words, word and nibble in it.
      std::size_t vector, word, place;
      if (paired) {
        vector = k / 8;
        word = output % 8 * 2 + k % 2;
        place = k % 8 / 2 * 2 + output / 8;
      } else {
        vector = k / 8;
        word = output;
        place = k % 8;
      }
      values[vector * 64 + word * 4 + place / 2] |= static_cast<std::byte>(nibble << place % 2 * 4);
    }
    row += 16;
    values += 256;
  }
}

Status check(std::span<const Tensor* const> stacked) {
  if (stacked.empty()) return {StatusCode::invalid_argument, "no tensors to pack"};
  for (const Tensor* tensor : stacked) {
    const gguf::BlockShape shape = gguf::block_shape(tensor->type);
    if (shape.values == 0) {
      return {StatusCode::unimplemented,
              tensor->name + ": " + gguf::to_string(tensor->type) + " is not supported"};
    }
    if (tensor->dims.empty() || tensor->dims.size() > 2 || tensor->dims[0] == 0 ||
        tensor->rows() == 0 || tensor->dims[0] % shape.values != 0 ||
        tensor->data.size() < tensor->rows() * tensor->row_bytes()) {
      return {StatusCode::invalid_argument, tensor->name + " is not a matrix of its type"};
    }
    if (tensor->dims[0] != stacked[0]->dims[0]) {
      return {StatusCode::invalid_argument,
              tensor->name + " and " + stacked[0]->name + " have different inputs"};
    }
  }
  return {};
}

}  // namespace

std::size_t PackedMatrix::bytes() const {
  return std::accumulate(
      segments_.begin(), segments_.end(), std::size_t{0},
      [](std::size_t sum, const Segment& segment) { return sum + segment.data.size(); });
}

Result<PackedMatrix> pack(const KernelTable& kernels, Compute compute,
                          std::span<const gguf::Tensor* const> stacked) {
  if (Status status = check(stacked); !status.ok()) return error(std::move(status));
  PackedMatrix matrix;
  matrix.compute_ = compute;
  matrix.inputs_ = stacked[0]->dims[0];
  const std::size_t padded = round_up(matrix.inputs_, block_inputs);

  // Runs of tensors of one format make segments, if each but the last ends with a panel; else
  // everything is expanded.
  struct Run {
    WeightFormat format;
    std::size_t outputs;
  };
  std::vector<Run> runs;
  for (const Tensor* tensor : stacked) {
    const WeightFormat format = format_of(compute, *tensor);
    if (runs.empty() || runs.back().format != format) runs.push_back({format, 0});
    runs.back().outputs += tensor->rows();
    matrix.outputs_ += tensor->rows();
  }
  for (std::size_t i = 0; i + 1 < runs.size(); ++i) {
    if (runs[i].outputs % panel_outputs == 0) continue;
    runs.assign(1, {WeightFormat::bf16, matrix.outputs_});
  }

  std::size_t tensor_index = 0, tensor_row = 0, panel = 0;
  std::vector<float> values(padded, 0.0f);
  for (const Run& run : runs) {
    const std::size_t panels = (run.outputs + panel_outputs - 1) / panel_outputs;
    const std::size_t panel_bytes = panel_bytes_of(run.format, padded);
    PackedMatrix::Segment segment{run.format, panel, panels, panel_bytes,
                                  AlignedBuffer(panels * panel_bytes)};
    std::memset(segment.data.data(), 0, segment.data.size());
    for (std::size_t output = 0; output < run.outputs; ++output) {
      const Tensor& tensor = *stacked[tensor_index];
      const std::byte* row = tensor.data.data() + tensor_row * tensor.row_bytes();
      std::byte* to = segment.data.data() + output / panel_outputs * panel_bytes;
      if (run.format == WeightFormat::f32 || run.format == WeightFormat::bf16) {
        gguf::dequantize(tensor.type, row, matrix.inputs_, values.data());
        place_expanded(run.format, values, output % panel_outputs, to);
      } else {
        place_packed(run.format, kernels.paired_weights, row, padded, output % panel_outputs, to);
      }
      if (++tensor_row == tensor.rows()) ++tensor_index, tensor_row = 0;
    }
    panel += panels;
    matrix.segments_.push_back(std::move(segment));
  }
  return matrix;
}

}  // namespace terrace::inference
