#include <string>

#include "inference/gguf/gguf_file.h"

namespace terrace::gguf {

std::string to_string(TensorType type) {
  switch (type) {
    case TensorType::f32:
      return "F32";
    case TensorType::f16:
      return "F16";
    case TensorType::q4_0:
      return "Q4_0";
    case TensorType::q4_1:
      return "Q4_1";
    case TensorType::q5_0:
      return "Q5_0";
    case TensorType::q5_1:
      return "Q5_1";
    case TensorType::q8_0:
      return "Q8_0";
    case TensorType::q2_k:
      return "Q2_K";
    case TensorType::q3_k:
      return "Q3_K";
    case TensorType::q4_k:
      return "Q4_K";
    case TensorType::q5_k:
      return "Q5_K";
    case TensorType::q6_k:
      return "Q6_K";
    case TensorType::iq4_nl:
      return "IQ4_NL";
    case TensorType::bf16:
      return "BF16";
  }
  return "type " + std::to_string(static_cast<std::uint32_t>(type));
}

BlockShape block_shape(TensorType type) {
  switch (type) {
    case TensorType::f32:
      return {1, 4};
    case TensorType::f16:
    case TensorType::bf16:
      return {1, 2};
    case TensorType::q4_0:
    case TensorType::iq4_nl:
      return {32, 18};
    case TensorType::q4_1:
      return {32, 20};
    case TensorType::q5_0:
      return {32, 22};
    case TensorType::q5_1:
      return {32, 24};
    case TensorType::q8_0:
      return {32, 34};
    case TensorType::q2_k:
      return {256, 84};
    case TensorType::q3_k:
      return {256, 110};
    case TensorType::q4_k:
      return {256, 144};
    case TensorType::q5_k:
      return {256, 176};
    case TensorType::q6_k:
      return {256, 210};
  }
  return {0, 0};
}

std::uint64_t Tensor::rows() const {
  std::uint64_t product = 1;
  for (std::size_t i = 1; i < dims.size(); ++i) product *= dims[i];
  return product;
}

std::uint64_t Tensor::row_bytes() const {
  const BlockShape block = block_shape(type);
  return block.values == 0 ? 0 : dims[0] / block.values * block.bytes;
}

}  // namespace terrace::gguf
