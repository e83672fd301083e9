#include "inference/cpu/elementwise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "tests/inference/cpu/kernel_sets.h"

namespace terrace::inference::test {
namespace {

class ElementwiseTest : public testing::TestWithParam<KernelSet> {
 protected:
  const KernelTable& table() const { return *GetParam().table; }
};

std::vector<float> floats_of(const PreparedRows& rows, std::size_t row) {
  std::vector<float> values(rows.inputs());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (rows.operand() == Operand::bf16) {
      std::uint16_t bits;
      std::memcpy(&bits, rows.row(row) + 2 * i, 2);
      values[i] = std::bit_cast<float>(std::uint32_t{bits} << 16);
    } else {
      std::memcpy(&values[i], rows.row(row) + 4 * i, 4);
    }
  }
  return values;
}

TEST_P(ElementwiseTest, Exp2) {
  std::vector<float> x;
  for (int i = -20000; i <= 20000; ++i) x.push_back(static_cast<float>(i) * 0.006f);
  std::vector<float> y = x;
  table().exp2(y.data(), y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(y[i] / std::exp2(double{x[i]}), 1, 3e-7) << x[i];
  }
  y = {0.0f, -0.0f, -125.0f, -125.5f, -1e30f, -INFINITY, 1000.0f};
  table().exp2(y.data(), y.size());
  EXPECT_THAT(y, testing::ElementsAre(1, 1, 0x1p-125f, 0, 0, 0, 0x1p126f));
}

TEST_P(ElementwiseTest, PreparedRowsAreRounded) {
  std::vector<float> x = random_floats(40, 1, 100);
  x[3] = std::bit_cast<float>(0x3f808000u);  // ties go to even
  x[4] = std::bit_cast<float>(0x3f818000u);
  x[5] = -0.0f;
  x[6] = std::numeric_limits<float>::infinity();
  for (const Compute compute : {Compute::bf16, Compute::f32}) {
    PreparedRows rows(table(), compute, 40, 1);
    prepare_rows(table(), x.data(), 40, {0, 1}, rows);
    std::vector<float> right = x;
    if (compute == Compute::bf16) {
      for (float& value : right) value = round_to_bf16(value);
    }
    EXPECT_TRUE(same_bits(floats_of(rows, 0), right)) << to_string(compute);
    x[7] = std::bit_cast<float>(0x7f800001u);  // a NaN whose payload is lost when rounded
    prepare_rows(table(), x.data(), 40, {0, 1}, rows);
    EXPECT_TRUE(std::isnan(floats_of(rows, 0)[7]));
    x[7] = 0;
  }
}

TEST_P(ElementwiseTest, RmsNorm) {
  for (const std::size_t count : {8u, 16u, 100u, 576u}) {
    const std::vector<float> x = random_floats(2 * count, 2, 5), weight = random_floats(count, 3);
    PreparedRows out(table(), Compute::f32, count, 2);
    rms_norm(table(), x.data(), count, weight.data(), 1e-5f, {0, 2}, out);
    for (std::size_t r = 0; r < 2; ++r) {
      double squares = 0;
      for (std::size_t i = 0; i < count; ++i)
        squares += double{x[r * count + i]} * x[r * count + i];
      const double scale = 1 / std::sqrt(squares / static_cast<double>(count) + 1e-5);
      const std::vector<float> y = floats_of(out, r);
      for (std::size_t i = 0; i < count; ++i) {
        ASSERT_NEAR(y[i], x[r * count + i] * scale * weight[i], 2e-6) << count << " " << i;
      }
    }
  }
}

TEST_P(ElementwiseTest, SiluUp) {
  const std::size_t count = 37;
  std::vector<float> gate_up = random_floats(2 * count, 4, 6);
  gate_up[0] = -200;  // e^200 is no float
  gate_up[1] = 200;
  PreparedRows out(table(), Compute::f32, count, 1);
  silu_up(table(), gate_up.data(), 2 * count, {0, 1}, out);
  const std::vector<float> y = floats_of(out, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const double gate = gate_up[i], up = gate_up[count + i];
    ASSERT_NEAR(y[i], gate / (1 + std::exp(-gate)) * up, 2e-6 * (1 + std::fabs(gate * up))) << i;
  }
}

TEST_P(ElementwiseTest, RopeTurnsNeighbouringPairs) {
  for (const std::size_t dims : {6u, 16u, 48u}) {
    const std::size_t head_dim = 48, heads = 3, position = 1234;
    std::vector<double> frequencies;
    for (std::size_t i = 0; i < dims / 2; ++i) {
      frequencies.push_back(
          std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(dims)));
    }
    RopeTable rope_table(frequencies);
    rope_table.ensure(7);
    rope_table.ensure(position + 1);
    const std::vector<float> x = random_floats(heads * head_dim, 6);
    std::vector<float> y = x;
    rope(table(), rope_table, position, y.data(), heads, head_dim);
    for (std::size_t h = 0; h < heads; ++h) {
      for (std::size_t i = 0; i < head_dim; ++i) {
        const std::size_t at = h * head_dim + i;
        if (i >= dims) {
          ASSERT_EQ(y[at], x[at]);
          continue;
        }
        const double angle = static_cast<double>(position) * frequencies[i / 2];
        const double a = x[at - i % 2], b = x[at - i % 2 + 1];
        const double right = i % 2 == 0 ? a * std::cos(angle) - b * std::sin(angle)
                                        : a * std::sin(angle) + b * std::cos(angle);
        ASSERT_NEAR(y[at], right, 1e-6) << dims << " " << i;
      }
    }
  }
}

TEST_P(ElementwiseTest, Add) {
  const std::vector<float> x = random_floats(35, 7), y = random_floats(35, 8);
  std::vector<float> sum = y;
  add(table(), sum.data(), x.data(), 35);
  for (std::size_t i = 0; i < 35; ++i) ASSERT_EQ(sum[i], x[i] + y[i]);
}

INSTANTIATE_TEST_SUITE_P(Kernels, ElementwiseTest, testing::ValuesIn(kernel_sets()), name_of);

TEST(ElementwiseFamilyTest, EqualNumericsGiveEqualBits) {
  std::map<std::string, std::vector<float>> of_numerics;
  const std::vector<float> x = random_floats(600, 12, 3), weight = random_floats(300, 13);
  for (const KernelSet& set : kernel_sets()) {
    PreparedRows normed(*set.table, Compute::f32, 300, 1),
        activated(*set.table, Compute::f32, 300, 1);
    rms_norm(*set.table, x.data(), 300, weight.data(), 1e-6f, {0, 1}, normed);
    silu_up(*set.table, x.data(), 600, {0, 1}, activated);
    std::vector<float> result = floats_of(normed, 0);
    const std::vector<float> second = floats_of(activated, 0);
    result.insert(result.end(), second.begin(), second.end());
    const auto [it, added] = of_numerics.emplace(set.table->numerics(Compute::f32), result);
    EXPECT_TRUE(same_bits(it->second, result)) << set.name;
  }
}

}  // namespace
}  // namespace terrace::inference::test
