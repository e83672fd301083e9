// Each type against its formula, written once more, value by value and in doubles, from the
// description of the format; and against the same weights in F32 where reference files are there.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "inference/gguf/gguf_file.h"

namespace terrace::gguf {
namespace {

using Block = std::vector<std::uint8_t>;

double half(const Block& b, std::size_t at) {
  const int bits = b[at] | b[at + 1] << 8;
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

// Value y of a block; its terms are rounded on the way, so `magnitude` bounds what that may cost.
struct Expected {
  double value, magnitude;
};
Expected product(double d, double q) { return {d * q, std::abs(d * q)}; }
Expected affine(double d, double q, double m) { return {d * q + m, std::abs(d * q) + std::abs(m)}; }

int nibble(const Block& b, std::size_t qs, std::size_t y) {  // of 32
  return y < 16 ? b[qs + y] % 16 : b[qs + y - 16] / 16;
}
int fifth(const Block& b, std::size_t qh, std::size_t y) {
  return 16 * (b[qh + y / 8] >> y % 8 & 1);
}

Expected q4_0(const Block& b, std::size_t y) { return product(half(b, 0), nibble(b, 2, y) - 8); }
Expected q4_1(const Block& b, std::size_t y) {
  return affine(half(b, 0), nibble(b, 4, y), half(b, 2));
}
Expected q5_0(const Block& b, std::size_t y) {
  return product(half(b, 0), nibble(b, 6, y) + fifth(b, 2, y) - 16);
}
Expected q5_1(const Block& b, std::size_t y) {
  return affine(half(b, 0), nibble(b, 8, y) + fifth(b, 4, y), half(b, 2));
}
Expected q8_0(const Block& b, std::size_t y) {
  return product(half(b, 0), static_cast<std::int8_t>(b[2 + y]));
}
Expected iq4_nl(const Block& b, std::size_t y) {
  static const int table[] = {-127, -104, -83, -65, -49, -35, -22, -10,
                              1,    13,   25,  38,  53,  69,  89,  113};
  return product(half(b, 0), table[nibble(b, 2, y)]);
}

// sm(j, s) of Q4_K and Q5_K, s at 4.
int scale_of(const Block& b, std::size_t j) {
  const std::uint8_t* s = &b[4];
  return j < 4 ? s[j] & 63 : (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
}
int min_of(const Block& b, std::size_t j) {
  const std::uint8_t* s = &b[4];
  return j < 4 ? s[j + 4] & 63 : (s[j + 4] >> 4) | (s[j] >> 6) << 4;
}
Expected q4_k(const Block& b, std::size_t y) {
  const std::size_t group = y / 32, byte = 16 + y / 64 * 32 + y % 32;
  const int q = group % 2 == 0 ? b[byte] % 16 : b[byte] / 16;
  return affine(half(b, 0) * scale_of(b, group), q, -half(b, 2) * min_of(b, group));
}
Expected q5_k(const Block& b, std::size_t y) {
  const std::size_t group = y / 32, byte = 48 + y / 64 * 32 + y % 32;
  const int q = (group % 2 == 0 ? b[byte] % 16 : b[byte] / 16) + 16 * (b[16 + y % 32] >> group & 1);
  return affine(half(b, 0) * scale_of(b, group), q, -half(b, 2) * min_of(b, group));
}
Expected q6_k(const Block& b, std::size_t y) {
  const std::size_t part = y / 128, walk = y % 128 / 32, l = y % 32;
  const std::uint8_t low = b[part * 64 + l + walk % 2 * 32];
  const int q = (walk < 2 ? low % 16 : low / 16) + 16 * (b[128 + part * 32 + l] >> 2 * walk & 3);
  const int scale = static_cast<std::int8_t>(b[192 + part * 8 + walk * 2 + l / 16]);
  return product(half(b, 208) * scale, q - 32);
}
Expected q2_k(const Block& b, std::size_t y) {
  const std::size_t part = y / 128, walk = y % 128 / 32, l = y % 32;
  const int q = b[16 + part * 32 + l] >> 2 * walk & 3, s = b[y / 16];
  return affine(half(b, 80) * (s & 15), q, -half(b, 82) * (s >> 4));
}
Expected q3_k(const Block& b, std::size_t y) {
  const std::size_t part = y / 128, walk = y % 128 / 32, l = y % 32, k = y / 16;
  const int low = b[32 + part * 32 + l] >> 2 * walk & 3;
  const int q = low - ((b[l] >> (part * 4 + walk) & 1) != 0 ? 0 : 4);
  const int s = (k < 8 ? b[96 + k] & 15 : b[96 + k - 8] >> 4) | (b[104 + k % 4] >> 2 * (k / 4) & 3)
                                                                    << 4;
  return product(half(b, 108) * (s - 32), q);
}

struct Format {
  TensorType type;
  Expected (*expected)(const Block&, std::size_t);
  std::vector<std::size_t> halves;  // where d, m, dmin lie
};

class Quantized : public ::testing::TestWithParam<Format> {};

TEST_P(Quantized, FollowsItsFormula) {
  const Format& format = GetParam();
  const BlockShape shape = block_shape(format.type);
  constexpr std::size_t blocks = 200;
  std::mt19937 random(7);
  std::vector<Block> originals;
  std::vector<std::byte> data(1);  // one byte ahead: no alignment can be relied on
  for (std::size_t i = 0; i < blocks; ++i) {
    Block block(shape.bytes);
    for (std::uint8_t& byte : block) byte = static_cast<std::uint8_t>(random());
    for (const std::size_t at : format.halves) {
      if ((block[at + 1] & 0x7c) == 0x7c) block[at + 1] ^= 0x40;  // finite, maybe subnormal
    }
    for (const std::uint8_t byte : block) data.push_back(static_cast<std::byte>(byte));
    originals.push_back(std::move(block));
  }
  std::vector<float> values(blocks * shape.values);
  dequantize(format.type, data.data() + 1, values.size(), values.data());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto [value, magnitude] = format.expected(originals[i / shape.values], i % shape.values);
    ASSERT_NEAR(values[i], value, magnitude * 0x1p-22) << "value " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, Quantized,
    ::testing::Values(Format{TensorType::q4_0, q4_0, {0}}, Format{TensorType::q4_1, q4_1, {0, 2}},
                      Format{TensorType::q5_0, q5_0, {0}}, Format{TensorType::q5_1, q5_1, {0, 2}},
                      Format{TensorType::q8_0, q8_0, {0}}, Format{TensorType::iq4_nl, iq4_nl, {0}},
                      Format{TensorType::q2_k, q2_k, {80, 82}},
                      Format{TensorType::q3_k, q3_k, {108}}, Format{TensorType::q4_k, q4_k, {0, 2}},
                      Format{TensorType::q5_k, q5_k, {0, 2}},
                      Format{TensorType::q6_k, q6_k, {208}}),
    [](const auto& format) { return to_string(format.param.type); });

TEST(Dequantize, PlainFloats) {
  // 19 values: more than one piece of any vector loop, and a rest.
  std::vector<std::byte> f32(1 + 4 * 19), half_data(1 + 2 * 19), bf16(1 + 2 * 19);
  std::vector<float> expected(19), values(19);
  for (std::size_t i = 0; i < 19; ++i) {
    expected[i] = static_cast<float>(i) - 8;  // exact in every type
    store_le(f32.data() + 1 + 4 * i, expected[i]);
    store_le(bf16.data() + 1 + 2 * i,
             static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(expected[i]) >> 16));
  }
  dequantize(TensorType::f32, f32.data() + 1, 19, values.data());
  EXPECT_EQ(values, expected);
  dequantize(TensorType::bf16, bf16.data() + 1, 19, values.data());
  EXPECT_EQ(values, expected);
  for (std::size_t i = 0; i < 19; ++i) {
    store_le(half_data.data() + 1 + 2 * i, static_cast<std::uint16_t>(0x3c00 + i));
    expected[i] = 1 + static_cast<float>(i) / 1024;
  }
  dequantize(TensorType::f16, half_data.data() + 1, 19, values.data());
  EXPECT_EQ(values, expected);
}

TEST(Dequantize, CallsMayBeCutAnywhere) {
  for (const TensorType type : {TensorType::f16, TensorType::q5_1, TensorType::q6_k}) {
    const BlockShape shape = block_shape(type);
    std::vector<std::byte> data(6 * shape.bytes);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 37 % 64);
    std::vector<float> whole(6 * shape.values), pieces(whole.size());
    dequantize(type, data.data(), whole.size(), whole.data());
    for (std::size_t i = 0; i < 6; ++i) {
      dequantize(type, data.data() + i * shape.bytes, shape.values, &pieces[i * shape.values]);
    }
    EXPECT_EQ(whole, pieces);
    dequantize(type, data.data(), 0, nullptr);
  }
}

// The same weights in every type. Bounds: the rounding error of each, over the weights' size.
TEST(Dequantize, AgreesWithTheSameWeightsInF32) {
  const std::filesystem::path tiny = std::string(TERRACE_SHARED_DIR) + "/reference/golden/tiny";
  if (!std::filesystem::exists(tiny)) GTEST_SKIP() << tiny << " is not there";
  const std::map<TensorType, double> bounds = {
      {TensorType::f32, 0},     {TensorType::f16, 4e-4},  {TensorType::bf16, 3e-3},
      {TensorType::q8_0, 8e-3}, {TensorType::q6_k, 0.03}, {TensorType::q5_0, 0.06},
      {TensorType::q5_1, 0.05}, {TensorType::q5_k, 0.05}, {TensorType::q4_0, 0.12},
      {TensorType::q4_1, 0.1},  {TensorType::q4_k, 0.1},  {TensorType::iq4_nl, 0.1},
      {TensorType::q3_k, 0.25}, {TensorType::q2_k, 0.4}};
  const auto exact_file = File::open(tiny / "f32.gguf");
  ASSERT_TRUE(exact_file.has_value()) << exact_file.error().to_string();
  std::map<TensorType, double> worst;
  for (const char* name : {"f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k_m",
                           "q4_k_m", "q5_k_m", "q6_k", "iq4_nl"}) {
    const auto file = File::open(tiny / (std::string(name) + ".gguf"));
    ASSERT_TRUE(file.has_value()) << file.error().to_string();
    ASSERT_EQ((*file)->tensors().size(), (*exact_file)->tensors().size());
    for (const Tensor& tensor : (*file)->tensors()) {
      const Tensor* exact = (*exact_file)->tensor(tensor.name);
      ASSERT_NE(exact, nullptr);
      ASSERT_EQ(exact->dims, tensor.dims);
      std::vector<float> values(tensor.dims[0] * tensor.rows()), expected(values.size());
      dequantize(tensor.type, tensor.data.data(), values.size(), values.data());
      dequantize(exact->type, exact->data.data(), expected.size(), expected.data());
      double error_squares = 0, squares = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        error_squares += std::pow(values[i] - expected[i], 2);
        squares += std::pow(expected[i], 2);
      }
      const double relative = std::sqrt(error_squares / squares);
      worst[tensor.type] = std::max(worst[tensor.type], relative);
      EXPECT_LE(relative, bounds.at(tensor.type))
          << name << " " << tensor.name << " " << to_string(tensor.type);
    }
  }
  EXPECT_EQ(worst.size(), bounds.size()) << "not every type was there";
  for (const auto& [type, error] : worst) RecordProperty(to_string(type), std::to_string(error));
}

}  // namespace
}  // namespace terrace::gguf
