// Products with weight matrices: y[row][output] = sum over k of x[row][k] * weight[output][k].
//
// Every output is one SIMD lane that sums over k in ascending order, so a row's result depends
// neither on the other rows nor on the number of threads. Weights come from GGUF tensors and are
// packed once into panels of 16 outputs in the order in which the kernels read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/status.h"
#include "inference/cpu/aligned_buffer.h"
#include "inference/cpu/isa.h"
#include "inference/cpu/kernel_table.h"
#include "inference/cpu/team.h"
#include "inference/gguf/gguf_file.h"

namespace terrace::inference {

// Weights in the form that the kernels of one instruction set read. Immutable once packed; any
// number of threads may read it.
class PackedMatrix {
 public:
  std::size_t outputs() const { return outputs_; }  // of all stacked tensors together
  std::size_t inputs() const { return inputs_; }
  std::size_t bytes() const;  // of memory

  // Panels of one format. Stacked tensors of different types make several.
  struct Segment {
    WeightFormat format;
    std::size_t first_panel, panels;
    std::size_t panel_bytes;  // from one panel to the next
    AlignedBuffer data;
  };
  std::span<const Segment> segments() const { return segments_; }
  Compute compute() const { return compute_; }

 private:
  friend Result<PackedMatrix> pack(const KernelTable&, Compute,
                                   std::span<const gguf::Tensor* const>);
  std::size_t outputs_ = 0, inputs_ = 0;
  Compute compute_ = Compute::bf16;
  std::vector<Segment> segments_;
};

// Packs tensors of dims [inputs, outputs_i], stacked along the outputs in the order given (q, k
// and v; gate and up). In bf16 compute Q4_0, Q4_1 and Q8_0 stay packed, everything else becomes
// BF16; in f32 compute everything becomes F32. The product is the same, bit for bit, as with
// weights expanded beforehand. invalid_argument if the inputs differ or a tensor is no matrix,
// unimplemented for an unknown type. Thread-safe.
Result<PackedMatrix> pack(const KernelTable& kernels, Compute compute,
                          std::span<const gguf::Tensor* const> stacked);

// Rows of activations in the form that the kernels multiply (see Operand). Row r may be written
// by one thread at a time; whoever reads it must have passed a barrier since.
class PreparedRows {
 public:
  // For rows of `inputs` values; padding is zeroed here and never written again.
  PreparedRows(const KernelTable& kernels, Compute compute, std::size_t inputs,
               std::size_t capacity_rows);

  // Room for at least `rows`; drops what was there if it has to grow. Not during a run.
  void reserve(std::size_t rows);

  Operand operand() const { return operand_; }
  std::size_t inputs() const { return inputs_; }
  std::size_t capacity_rows() const { return capacity_rows_; }
  std::size_t pitch_bytes() const { return pitch_bytes_; }
  std::byte* row(std::size_t index) { return data_.data() + index * pitch_bytes_; }
  const std::byte* row(std::size_t index) const { return data_.data() + index * pitch_bytes_; }

 private:
  Operand operand_;
  std::size_t inputs_, pitch_bytes_, capacity_rows_ = 0;
  AlignedBuffer data_;
};

// Converts rows [rows.begin, rows.end) of x ([row][ld], the first out.inputs() values of each).
void prepare_rows(const KernelTable& kernels, const float* x, std::size_t ld, Range rows,
                  PreparedRows& out);

// What happens to the sum: y = sum, or y = y + sum (one addition, for the residual stream).
enum class LinearOutput { store, add };

// Rows [first_row, first_row + rows) of x times the matrix into y[0..rows)[ld]. Called by every
// thread of the team; each computes its panels of the outputs for all rows. No barrier inside: x
// must be complete before, and y is complete after the caller's next barrier. `x` has been
// prepared for the same kernels and compute type.
void linear(TeamMember member, const KernelTable& kernels, const PackedMatrix& matrix,
            const PreparedRows& x, std::size_t first_row, std::size_t rows, float* y,
            std::size_t ld, LinearOutput output = LinearOutput::store);

}  // namespace terrace::inference
