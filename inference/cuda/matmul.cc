#include "inference/cuda/matmul.h"

#include <string>
#include <utility>

namespace terrace::inference::gpu {

namespace {
const void* as_pointer(DeviceAddress address) { return reinterpret_cast<const void*>(address); }
}  // namespace

Result<std::unique_ptr<Matmul>> Matmul::create(const BlasLtApi& api, const cuda::Device& device) {
  std::unique_ptr<Matmul> matmul(new Matmul(api));
  auto workspace = DeviceBuffer::allocate(device, matmul_workspace_bytes, "the products");
  if (!workspace) return error(workspace.error());
  matmul->workspace_ = std::move(*workspace);
  BlasStatus code = api.create(&matmul->handle_);
  if (code == blas_success) code = api.matmul_create(&matmul->matmul_, compute_f32, type_f32);
  // Row-major weights are the transpose of a column-major matrix; x and y are as they should be.
  const std::int32_t transposed = operation_transposed;
  if (code == blas_success)
    code = api.matmul_set_attribute(matmul->matmul_, matmul_transpose_a, &transposed,
                                    sizeof transposed);
  if (code == blas_success) code = api.preference_create(&matmul->preference_);
  const std::uint64_t bytes = matmul_workspace_bytes;
  if (code == blas_success)
    code = api.preference_set_attribute(matmul->preference_, preference_workspace_bytes, &bytes,
                                        sizeof bytes);
  if (code == blas_success)
    code = api.preference_set_attribute(matmul->preference_, preference_reduction_schemes,
                                        &reduction_none, sizeof reduction_none);
  if (code != blas_success) return error(to_status(api, code, "could not start cuBLASLt"));
  return matmul;
}

Matmul::~Matmul() {
  for (const auto& [shape, product] : products_) destroy(product);
  if (preference_) (void)api_.preference_destroy(preference_);
  if (matmul_) (void)api_.matmul_destroy(matmul_);
  if (handle_) (void)api_.destroy(handle_);
}

void Matmul::destroy(const Product& product) {
  for (const LayoutHandle layout : {product.weight, product.x, product.y})
    if (layout) (void)api_.layout_destroy(layout);
}

Status Matmul::prepare(const Shape& shape, Product& product) {
  const auto [rows, inputs, outputs] = shape;
  const auto pitch = [](std::size_t width) { return static_cast<std::int64_t>(width); };
  BlasStatus code = api_.layout_create(&product.weight, type_bf16, inputs, outputs, pitch(inputs));
  if (code == blas_success)
    code = api_.layout_create(&product.x, type_bf16, inputs, rows, pitch(inputs));
  if (code == blas_success)
    code = api_.layout_create(&product.y, type_f32, outputs, rows, pitch(outputs));
  HeuristicResult best{};
  int found = 0;
  if (code == blas_success)
    code = api_.find_algorithms(handle_, matmul_, product.weight, product.x, product.y, product.y,
                                preference_, 1, &best, &found);
  const std::string what = "a product of " + std::to_string(rows) + " x " + std::to_string(inputs) +
                           " by " + std::to_string(outputs);
  if (code != blas_success) return to_status(api_, code, "could not prepare " + what);
  if (found == 0 || best.state != blas_success)
    return {StatusCode::unimplemented, "cuBLASLt has no algorithm for " + what};
  product.algorithm = best.algorithm;
  product.workspace_bytes = best.workspace_bytes;
  return {};
}

Status Matmul::multiply(DeviceAddress weight, DeviceAddress x, DeviceAddress y, std::size_t rows,
                        std::size_t inputs, std::size_t outputs, bool add, StreamHandle stream) {
  const Shape shape(rows, inputs, outputs);
  auto found = products_.find(shape);
  if (found == products_.end()) {
    Product product;
    if (Status status = prepare(shape, product); !status.ok()) {
      destroy(product);
      return status;
    }
    found = products_.emplace(shape, product).first;
  }
  const Product& product = found->second;
  const float one = 1, beta = add ? 1 : 0;
  void* const result = reinterpret_cast<void*>(y);
  return to_status(
      api_,
      api_.matmul(handle_, matmul_, &one, as_pointer(weight), product.weight, as_pointer(x),
                  product.x, &beta, result, product.y, result, product.y, &product.algorithm,
                  reinterpret_cast<void*>(workspace_.address()), product.workspace_bytes, stream),
      "could not start a product");
}

}  // namespace terrace::inference::gpu
