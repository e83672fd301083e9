#include "inference/gguf/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/quantize.h"

namespace terrace::gguf {
namespace {

using test_support::float_to_bf16;
using test_support::float_to_half;

TEST(Half, EveryValueIsExact) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const int mantissa = static_cast<int>(bits & 1023);
    const float value = half_to_float(static_cast<std::uint16_t>(bits));
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
    if (exponent == 31 && mantissa != 0) {
      ASSERT_TRUE(std::isnan(value)) << bits;
    } else if (exponent == 31) {
      ASSERT_TRUE(std::isinf(value)) << bits;
    } else {
      const double expected =
          exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
      ASSERT_EQ(std::abs(value), expected) << bits;
    }
    if (!std::isnan(value)) {
      ASSERT_EQ(float_to_half(value), bits);
    }
  }
}

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(float_to_half(1.0f + 0x1p-11f), 0x3c00);      // a tie, down to even
  EXPECT_EQ(float_to_half(1.0f + 0x3p-11f), 0x3c02);      // a tie, up to even
  EXPECT_EQ(float_to_half(1.0f + 0x1.002p-11f), 0x3c01);  // just over the tie
  EXPECT_EQ(float_to_half(2.0f - 0x1p-12f), 0x4000);      // up into the next exponent
  EXPECT_EQ(float_to_half(0x1p-25f), 0x0000);             // half of the least value
  EXPECT_EQ(float_to_half(0x1.8p-25f), 0x0001);
  EXPECT_EQ(float_to_half(65519.0f), 0x7bff);
  EXPECT_EQ(float_to_half(-65520.0f), 0xfc00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::quiet_NaN()) & 0x7e00, 0x7e00);
}

TEST(Bf16, IsTheUpperHalfOfAFloat) {
  EXPECT_EQ(bf16_to_float(0x3f80), 1.0f);
  EXPECT_EQ(bf16_to_float(0xc2f7), -123.5f);
  EXPECT_EQ(bf16_to_float(0x0001), 0x1p-133f);
  EXPECT_EQ(float_to_bf16(1.0f + 0x1p-8f), 0x3f80);  // a tie, down to even
  EXPECT_EQ(float_to_bf16(1.0f + 0x3p-8f), 0x3f82);  // a tie, up to even
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace terrace::gguf
