#include <array>
#include <cassert>
#include <cstring>

#include "core/bytes.h"
#include "inference/gguf/block_formats.h"
#include "inference/gguf/gguf_file.h"
#include "inference/gguf/half.h"

namespace terrace::gguf {
namespace {

void dequantize_f32(const std::byte* data, std::size_t count, float* out) {
  // In pieces of a known size, which become vector moves: the string instructions that memcpy uses
  // for long runs are several times slower on some processors.
  constexpr std::size_t piece = 16;
  std::size_t i = 0;
  for (; i + piece <= count; i += piece) {
    std::memcpy(out + i, data + i * sizeof(float), piece * sizeof(float));
  }
  std::memcpy(out + i, data + i * sizeof(float), (count - i) * sizeof(float));
}

void dequantize_f16(const std::byte* data, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i)
    out[i] = half_to_float(load_le<std::uint16_t>(data + 2 * i));
}

void dequantize_bf16(const std::byte* data, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i)
    out[i] = bf16_to_float(load_le<std::uint16_t>(data + 2 * i));
}

// Each of the following turns one block into its 32 values. Value j is the low nibble of byte j,
// value j + 16 the high one.

void q4_0(const std::byte* block, float* __restrict out) {
  const float d = half_at(block);
  const std::uint8_t* qs = bytes_at(block + 2);
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>((qs[j] & 15) - 8) * d;
    out[j + 16] = static_cast<float>((qs[j] >> 4) - 8) * d;
  }
}

void q4_1(const std::byte* block, float* __restrict out) {
  const float d = half_at(block), m = half_at(block + 2);
  const std::uint8_t* qs = bytes_at(block + 4);
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>(qs[j] & 15) * d + m;
    out[j + 16] = static_cast<float>(qs[j] >> 4) * d + m;
  }
}

// 16 where bit `index` of `bits` is set. By a mask, because vectors of the baseline instruction set
// cannot shift each lane by a count of its own.
int fifth_bit(std::uint32_t bits, int index) {
  static constexpr auto mask = [] {
    std::array<std::uint32_t, 32> all{};
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = 1u << i;
    return all;
  }();
  return (bits & mask[static_cast<std::size_t>(index)]) != 0 ? 16 : 0;
}

void q5_0(const std::byte* block, float* __restrict out) {
  const float d = half_at(block);
  const auto high = load_le<std::uint32_t>(block + 2);
  const std::uint8_t* qs = bytes_at(block + 6);
  for (int j = 0; j < 16; ++j) {
    const int low_value = (qs[j] & 15) | fifth_bit(high, j);
    const int high_value = (qs[j] >> 4) | fifth_bit(high, j + 16);
    out[j] = static_cast<float>(low_value - 16) * d;
    out[j + 16] = static_cast<float>(high_value - 16) * d;
  }
}

void q5_1(const std::byte* block, float* __restrict out) {
  const float d = half_at(block), m = half_at(block + 2);
  const auto high = load_le<std::uint32_t>(block + 4);
  const std::uint8_t* qs = bytes_at(block + 8);
  for (int j = 0; j < 16; ++j) {
    const int low_value = (qs[j] & 15) | fifth_bit(high, j);
    const int high_value = (qs[j] >> 4) | fifth_bit(high, j + 16);
    out[j] = static_cast<float>(low_value) * d + m;
    out[j + 16] = static_cast<float>(high_value) * d + m;
  }
}

void q8_0(const std::byte* block, float* __restrict out) {
  const float d = half_at(block);
  const std::int8_t* qs = signed_bytes_at(block + 2);
  for (int j = 0; j < 32; ++j) out[j] = static_cast<float>(qs[j]) * d;
}

void iq4_nl(const std::byte* block, float* __restrict out) {
  static constexpr float table[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
  const float d = half_at(block);
  const std::uint8_t* qs = bytes_at(block + 2);
  for (int j = 0; j < 16; ++j) {
    out[j] = d * table[qs[j] & 15];
    out[j + 16] = d * table[qs[j] >> 4];
  }
}

template <void (*dequantize_block)(const std::byte*, float*)>
void each_block(BlockShape shape, const std::byte* data, std::size_t count, float* out) {
  for (std::size_t done = 0; done < count; done += shape.values) {
    dequantize_block(data, out + done);
    data += shape.bytes;
  }
}

}  // namespace

void dequantize(TensorType type, const std::byte* data, std::size_t count, float* out) {
  const BlockShape shape = block_shape(type);
  assert(shape.values != 0 && count % shape.values == 0);
  switch (type) {
    case TensorType::f32:
      return dequantize_f32(data, count, out);
    case TensorType::f16:
      return dequantize_f16(data, count, out);
    case TensorType::bf16:
      return dequantize_bf16(data, count, out);
    case TensorType::q4_0:
      return each_block<q4_0>(shape, data, count, out);
    case TensorType::q4_1:
      return each_block<q4_1>(shape, data, count, out);
    case TensorType::q5_0:
      return each_block<q5_0>(shape, data, count, out);
    case TensorType::q5_1:
      return each_block<q5_1>(shape, data, count, out);
    case TensorType::q8_0:
      return each_block<q8_0>(shape, data, count, out);
    case TensorType::iq4_nl:
      return each_block<iq4_nl>(shape, data, count, out);
    case TensorType::q2_k:
      return each_block<dequantize_q2_k>(shape, data, count, out);
    case TensorType::q3_k:
      return each_block<dequantize_q3_k>(shape, data, count, out);
    case TensorType::q4_k:
      return each_block<dequantize_q4_k>(shape, data, count, out);
    case TensorType::q5_k:
      return each_block<dequantize_q5_k>(shape, data, count, out);
    case TensorType::q6_k:
      return each_block<dequantize_q6_k>(shape, data, count, out);
  }
}

}  // namespace terrace::gguf
