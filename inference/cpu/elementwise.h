// What lies between the products, row by row. Each function computes whole rows in a fixed order;
// callers split rows over threads as they like (see split() in team.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "inference/cpu/kernel_table.h"
#include "inference/cpu/linear.h"
#include "inference/cpu/team.h"

namespace terrace::inference {

// out[r] = x[r] / sqrt(mean(x[r]^2) + epsilon) * weight, in the form of a linear layer's input.
// x is [row][ld] with out.inputs() values a row, weight has out.inputs() values.
void rms_norm(const KernelTable& kernels, const float* x, std::size_t ld, const float* weight,
              float epsilon, Range rows, PreparedRows& out);

// out[r][i] = silu(gate) * up with gate = gate_up[r][i], up = gate_up[r][out.inputs() + i].
void silu_up(const KernelTable& kernels, const float* gate_up, std::size_t ld, Range rows,
             PreparedRows& out);

// y[i] += x[i].
void add(const KernelTable& kernels, float* y, const float* x, std::size_t count);

// Cosines and sines of the rotary embedding, computed in double for each position once.
class RopeTable {
 public:
  // `frequencies`: radians a position of each of rope_dims / 2 pairs, scaling included:
  // base^(-2i/rope_dims) / rope_freqs[i] * linear scale.
  explicit RopeTable(std::vector<double> frequencies);

  // Makes positions [0, end) available. Not while others read the table.
  void ensure(std::size_t end);

  std::size_t rope_dims() const { return 2 * frequencies_.size(); }
  // cos of each pair twice, then -sin and sin of each pair: 2 * rope_dims() values.
  const float* row(std::size_t position) const {
    return values_.data() + position * 2 * rope_dims();
  }

 private:
  std::vector<double> frequencies_;
  std::vector<float> values_;
};

// Rotates the pairs (2i, 2i+1), i < rope_dims / 2, of each of `heads` heads of head_dim values
// in place.
void rope(const KernelTable& kernels, const RopeTable& table, std::size_t position, float* x,
          std::size_t heads, std::size_t head_dim);

}  // namespace terrace::inference
