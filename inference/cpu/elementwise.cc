#include "inference/cpu/elementwise.h"

#include <cmath>

namespace terrace::inference {

void rms_norm(const KernelTable& kernels, const float* x, std::size_t ld, const float* weight,
              float epsilon, Range rows, PreparedRows& out) {
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    kernels.rms_norm(x + r * ld, weight, out.inputs(), epsilon, out.operand(), out.row(r));
  }
}

void silu_up(const KernelTable& kernels, const float* gate_up, std::size_t ld, Range rows,
             PreparedRows& out) {
  for (std::size_t r = rows.begin; r < rows.end; ++r) {
    const float* gate = gate_up + r * ld;
    kernels.silu_up(gate, gate + out.inputs(), out.inputs(), out.operand(), out.row(r));
  }
}

void add(const KernelTable& kernels, float* y, const float* x, std::size_t count) {
  kernels.add(y, x, count);
}

RopeTable::RopeTable(std::vector<double> frequencies) : frequencies_(std::move(frequencies)) {}

void RopeTable::ensure(std::size_t end) {
  const std::size_t dims = rope_dims();
  if (dims == 0) return;
  std::size_t position = values_.size() / (2 * dims);
  if (end <= position) return;
  values_.resize(end * 2 * dims);
  for (; position < end; ++position) {
    float* cosines = values_.data() + position * 2 * dims;
    float* sines = cosines + dims;
    for (std::size_t pair = 0; pair < frequencies_.size(); ++pair) {
      const double angle = static_cast<double>(position) * frequencies_[pair];
      const auto cosine = static_cast<float>(std::cos(angle));
      const auto sine = static_cast<float>(std::sin(angle));
      cosines[2 * pair] = cosines[2 * pair + 1] = cosine;
      sines[2 * pair] = -sine;
      sines[2 * pair + 1] = sine;
    }
  }
}

void rope(const KernelTable& kernels, const RopeTable& table, std::size_t position, float* x,
          std::size_t heads, std::size_t head_dim) {
  const float* cosines = table.row(position);
  for (std::size_t head = 0; head < heads; ++head) {
    kernels.rope(x + head * head_dim, cosines, cosines + table.rope_dims(), table.rope_dims());
  }
}

}  // namespace terrace::inference
