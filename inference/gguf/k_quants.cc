// Formats of 256 values, in groups of 16 or 32 that have quantized scales of their own.
#include <cstring>

#include "inference/gguf/block_formats.h"

namespace terrace::gguf {
namespace {

struct ScaleAndMin {
  float scale, min;
};

// Q4_K and Q5_K pack 8 scales and 8 minima of 6 bits each into 12 bytes: the first four of each
// are the low bits of bytes 0-3 and 4-7; the others have 4 bits in bytes 8-11 and 2 in the tops.
ScaleAndMin unpack_scale(int group, const std::uint8_t* s) {
  if (group < 4) return {static_cast<float>(s[group] & 63), static_cast<float>(s[group + 4] & 63)};
  return {static_cast<float>((s[group + 4] & 15) | (s[group - 4] >> 6) << 4),
          static_cast<float>((s[group + 4] >> 4) | (s[group] >> 6) << 4)};
}

}  // namespace

void dequantize_q4_k(const std::byte* block, float* __restrict out) {
  const float d = half_at(block), dmin = half_at(block + 2);
  const std::uint8_t* scales = bytes_at(block + 4);
  const std::uint8_t* q = bytes_at(block + 16);
  for (int pair = 0; pair < 4; ++pair, q += 32, out += 64) {
    const ScaleAndMin low = unpack_scale(2 * pair, scales);
    const ScaleAndMin high = unpack_scale(2 * pair + 1, scales);
    const float d_low = d * low.scale, m_low = dmin * low.min;
    const float d_high = d * high.scale, m_high = dmin * high.min;
    for (int l = 0; l < 32; ++l) {
      out[l] = d_low * static_cast<float>(q[l] & 15) - m_low;
      out[l + 32] = d_high * static_cast<float>(q[l] >> 4) - m_high;
    }
  }
}

void dequantize_q5_k(const std::byte* block, float* __restrict out) {
  const float d = half_at(block), dmin = half_at(block + 2);
  const std::uint8_t* scales = bytes_at(block + 4);
  const std::uint8_t* fifth = bytes_at(block + 16);  // bit g of byte l: the top bit of group g
  const std::uint8_t* q = bytes_at(block + 48);
  for (int pair = 0; pair < 4; ++pair, q += 32, out += 64) {
    const ScaleAndMin low = unpack_scale(2 * pair, scales);
    const ScaleAndMin high = unpack_scale(2 * pair + 1, scales);
    const float d_low = d * low.scale, m_low = dmin * low.min;
    const float d_high = d * high.scale, m_high = dmin * high.min;
    for (int l = 0; l < 32; ++l) {
      const int top_low = (fifth[l] >> (2 * pair) & 1) << 4;
      const int top_high = (fifth[l] >> (2 * pair + 1) & 1) << 4;
      out[l] = d_low * static_cast<float>((q[l] & 15) | top_low) - m_low;
      out[l + 32] = d_high * static_cast<float>((q[l] >> 4) | top_high) - m_high;
    }
  }
}

void dequantize_q6_k(const std::byte* block, float* __restrict out) {
  const std::uint8_t* low = bytes_at(block);         // lower 4 bits
  const std::uint8_t* high = bytes_at(block + 128);  // upper 2 bits
  const std::int8_t* scales = signed_bytes_at(block + 192);
  const float d = half_at(block + 208);
  for (int half = 0; half < 2; ++half, low += 64, high += 32, scales += 8, out += 128) {
    float group[8];
    for (int i = 0; i < 8; ++i) group[i] = d * static_cast<float>(scales[i]);
    for (int s = 0; s < 2; ++s) {
      for (int i = 0; i < 16; ++i) {
        const int l = 16 * s + i;
        const int q1 = (low[l] & 15) | (high[l] & 3) << 4;
        const int q2 = (low[l + 32] & 15) | (high[l] >> 2 & 3) << 4;
        const int q3 = (low[l] >> 4) | (high[l] >> 4 & 3) << 4;
        const int q4 = (low[l + 32] >> 4) | (high[l] >> 6) << 4;
        out[l] = group[s] * static_cast<float>(q1 - 32);
        out[l + 32] = group[s + 2] * static_cast<float>(q2 - 32);
        out[l + 64] = group[s + 4] * static_cast<float>(q3 - 32);
        out[l + 96] = group[s + 6] * static_cast<float>(q4 - 32);
      }
    }
  }
}

void dequantize_q2_k(const std::byte* block, float* __restrict out) {
  const std::uint8_t* scales = bytes_at(block);  // one byte a group: scale below, minimum above
  const std::uint8_t* q = bytes_at(block + 16);
  const float d = half_at(block + 80), dmin = half_at(block + 82);
  for (int half = 0; half < 2; ++half, q += 32) {
    for (int shift = 0; shift < 8; shift += 2, scales += 2, out += 32) {
      for (int s = 0; s < 2; ++s) {
        const float scale = d * static_cast<float>(scales[s] & 15);
        const float min = dmin * static_cast<float>(scales[s] >> 4);
        for (int i = 0; i < 16; ++i) {
          out[16 * s + i] = scale * static_cast<float>(q[16 * s + i] >> shift & 3) - min;
        }
      }
    }
  }
}

void dequantize_q3_k(const std::byte* block, float* __restrict out) {
  const std::uint8_t* high = bytes_at(block);  // bit k of byte l: third bit in the k-th walk
  const std::uint8_t* q = bytes_at(block + 32);
  const float d = half_at(block + 108);

  // 16 scales of 6 bits: 4 low bits each in the first 8 bytes, 2 high bits in the last 4.
  std::uint32_t packed[3];
  std::memcpy(packed, block + 96, sizeof packed);
  constexpr std::uint32_t low_4 = 0x0f0f0f0f, low_2 = 0x03030303;
  const std::uint32_t unpacked[4] = {
      (packed[0] & low_4) | (packed[2] & low_2) << 4,
      (packed[1] & low_4) | (packed[2] >> 2 & low_2) << 4,
      (packed[0] >> 4 & low_4) | (packed[2] >> 4 & low_2) << 4,
      (packed[1] >> 4 & low_4) | (packed[2] >> 6 & low_2) << 4,
  };
  std::uint8_t scales[16];
  std::memcpy(scales, unpacked, sizeof scales);

  for (int walk = 0; walk < 8; ++walk, out += 32) {
    const std::uint8_t* from = walk < 4 ? q : q + 32;
    const int shift = walk % 4 * 2;
    for (int s = 0; s < 2; ++s) {
      const float scale = d * static_cast<float>(scales[2 * walk + s] - 32);
      for (int i = 0; i < 16; ++i) {
        const int l = 16 * s + i;
        const int value = (from[l] >> shift & 3) | (high[l] >> walk & 1) << 2;
        out[l] = scale * static_cast<float>(value - 4);
      }
    }
  }
}

}  // namespace terrace::gguf
