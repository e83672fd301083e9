// Products with weight matrices on the device, by cuBLASLt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>

#include "core/cuda/device.h"
#include "core/status.h"
#include "inference/cuda/blas_lt.h"
#include "inference/cuda/device_buffer.h"

namespace terrace::inference::gpu {

// Enough for every algorithm on today's devices (NVIDIA's own advice for Hopper).
constexpr std::size_t matmul_workspace_bytes = std::size_t{32} << 20;

// One stream at a time uses it: the workspace is one. `api` and `device` must outlive it.
class Matmul {
 public:
  static Result<std::unique_ptr<Matmul>> create(const BlasLtApi& api, const cuda::Device& device);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  // y[row][output] = sum over k of x[row][k] * weight[output][k], or += if `add`; x and weight in
  // BF16, sums and y in F32. All of them aligned to 256 bytes. The algorithm for a shape is looked
  // for once, without those that sum parts of k apart: the result of a row shall not depend on how
  // many rows there are more than it has to (the library promises nothing).
  Status multiply(DeviceAddress weight, DeviceAddress x, DeviceAddress y, std::size_t rows,
                  std::size_t inputs, std::size_t outputs, bool add, StreamHandle stream);

 private:
  struct Product {
    LayoutHandle weight = nullptr, x = nullptr, y = nullptr;
    MatmulAlgorithm algorithm{};
    std::size_t workspace_bytes = 0;
  };
  using Shape = std::tuple<std::size_t, std::size_t, std::size_t>;  // rows, inputs, outputs

  explicit Matmul(const BlasLtApi& api) : api_(api) {}
  Status prepare(const Shape& shape, Product& product);
  void destroy(const Product& product);

  const BlasLtApi& api_;
  LtHandle handle_ = nullptr;
  MatmulHandle matmul_ = nullptr;
  PreferenceHandle preference_ = nullptr;
  DeviceBuffer workspace_;
  std::map<Shape, Product> products_;  // as many as there are sizes of passes times matrices
};

}  // namespace terrace::inference::gpu
