// Random weight matrices in GGUF types.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "inference/gguf/gguf_file.h"

namespace terrace::inference::test {

// A tensor and the bytes that it points to.
struct OwnedTensor {
  std::vector<std::byte> bytes;
  gguf::Tensor tensor;

  OwnedTensor(gguf::TensorType type, std::size_t inputs, std::size_t outputs, unsigned seed) {
    const gguf::BlockShape shape = gguf::block_shape(type);
    bytes.resize(inputs / shape.values * shape.bytes * outputs);
    fill(type, shape, seed);
    tensor = {"random_" + std::to_string(seed), type, {inputs, outputs}, bytes};
  }
  OwnedTensor(const OwnedTensor&) = delete;

  std::vector<float> values() const {
    std::vector<float> result(tensor.dims[0] * tensor.dims[1]);
    gguf::dequantize(tensor.type, bytes.data(), result.size(), result.data());
    return result;
  }

 private:
  static std::uint16_t half(std::mt19937& random) {  // magnitude in [2^-8, 2^-4), any sign
    return static_cast<std::uint16_t>((random() & 0x8000) | (7 + random() % 4) << 10 |
                                      (random() & 1023));
  }

  void fill(gguf::TensorType type, gguf::BlockShape shape, unsigned seed) {
    std::mt19937 random(seed);
    if (type == gguf::TensorType::f32) {
      std::normal_distribution<float> normal(0, 0.05f);
      for (std::size_t i = 0; i < bytes.size(); i += 4) {
        const float value = normal(random);
        std::memcpy(&bytes[i], &value, 4);
      }
      return;
    }
    if (type == gguf::TensorType::f16 || type == gguf::TensorType::bf16) {
      for (std::size_t i = 0; i < bytes.size(); i += 2) {
        const std::uint16_t value =
            type == gguf::TensorType::f16
                ? half(random)
                : static_cast<std::uint16_t>((random() & 0x8000) | 0x3c00 | (random() & 511));
        std::memcpy(&bytes[i], &value, 2);
      }
      return;
    }
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    for (std::size_t at = 0; at < bytes.size(); at += shape.bytes) {
      for (const std::size_t offset : scale_offsets(type)) {
        const std::uint16_t value = half(random);
        std::memcpy(&bytes[at + offset], &value, 2);
      }
    }
  }

  static std::vector<std::size_t> scale_offsets(gguf::TensorType type) {
    switch (type) {
      case gguf::TensorType::q4_1:
      case gguf::TensorType::q5_1:
      case gguf::TensorType::q4_k:
      case gguf::TensorType::q5_k:
        return {0, 2};
      case gguf::TensorType::q6_k:
        return {208};
      case gguf::TensorType::q2_k:
        return {80, 82};
      case gguf::TensorType::q3_k:
        return {108};
      default:
        return {0};
    }
  }
};

}  // namespace terrace::inference::test
