// Quantized blocks: how their parts are read, and the formats of 256 values ("K").
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/bytes.h"
#include "inference/gguf/half.h"

namespace terrace::gguf {

inline float half_at(const std::byte* at) { return half_to_float(load_le<std::uint16_t>(at)); }
inline const std::uint8_t* bytes_at(const std::byte* at) {
  return reinterpret_cast<const std::uint8_t*>(at);
}
inline const std::int8_t* signed_bytes_at(const std::byte* at) {
  return reinterpret_cast<const std::int8_t*>(at);
}

// One block at `block` (any alignment) to 256 floats.
void dequantize_q2_k(const std::byte* block, float* out);
void dequantize_q3_k(const std::byte* block, float* out);
void dequantize_q4_k(const std::byte* block, float* out);
void dequantize_q5_k(const std::byte* block, float* out);
void dequantize_q6_k(const std::byte* block, float* out);

}  // namespace terrace::gguf
