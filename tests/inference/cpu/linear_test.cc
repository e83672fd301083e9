#include "inference/cpu/linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "tests/inference/cpu/kernel_sets.h"
#include "tests/inference/cpu/random_tensor.h"

namespace terrace::inference::test {
namespace {

using gguf::TensorType;

class LinearTest : public testing::TestWithParam<KernelSet> {
 protected:
  const KernelTable& table() const { return *GetParam().table; }
};

PackedMatrix pack_or_die(const KernelTable& table, Compute compute,
                         const std::vector<const OwnedTensor*>& stacked) {
  std::vector<const gguf::Tensor*> tensors;
  for (const OwnedTensor* tensor : stacked) tensors.push_back(&tensor->tensor);
  Result<PackedMatrix> matrix = pack(table, compute, tensors);
  if (!matrix) {
    ADD_FAILURE() << matrix.error().to_string();
    return {};
  }
  return std::move(*matrix);
}

std::vector<float> multiply(const KernelTable& table, Compute compute, const PackedMatrix& matrix,
                            const std::vector<float>& x, std::size_t rows, int threads = 1) {
  PreparedRows prepared(table, compute, matrix.inputs(), rows);
  std::vector<float> y(rows * matrix.outputs());
  Team team(threads);
  team.run([&](TeamMember member) {
    prepare_rows(table, x.data(), matrix.inputs(), split(rows, member), prepared);
    member.barrier();
    linear(member, table, matrix, prepared, 0, rows, y.data(), matrix.outputs());
  });
  return y;
}

// What the numerics promise for weights [outputs][inputs] and rows x.
std::vector<float> expected(const std::string& numerics, Compute compute, std::vector<float> w,
                            std::vector<float> x, std::size_t inputs) {
  if (compute == Compute::bf16) {
    for (float& value : w) value = round_to_bf16(value);
    for (float& value : x) value = round_to_bf16(value);
  }
  const std::size_t rows = x.size() / inputs, outputs = w.size() / inputs;
  std::vector<float> y;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t o = 0; o < outputs; ++o) {
      y.push_back(chain(numerics, std::span(x).subspan(r * inputs, inputs),
                        std::span(w).subspan(o * inputs, inputs)));
    }
  }
  return y;
}

TEST_P(LinearTest, EveryTypeEqualsItsExpandedWeights) {
  for (const TensorType type :
       {TensorType::f32, TensorType::f16, TensorType::bf16, TensorType::q4_0, TensorType::q4_1,
        TensorType::q5_0, TensorType::q5_1, TensorType::q8_0, TensorType::q4_k, TensorType::q6_k}) {
    for (const Compute compute : {Compute::bf16, Compute::f32}) {
      const std::size_t inputs = 512, outputs = 83;
      const OwnedTensor tensor(type, inputs, outputs, 7);
      const PackedMatrix matrix = pack_or_die(table(), compute, {&tensor});
      for (const std::size_t rows : {std::size_t{1}, std::size_t{3}, std::size_t{20}}) {
        const std::vector<float> x = random_floats(rows * inputs, 11);
        EXPECT_TRUE(
            same_bits(multiply(table(), compute, matrix, x, rows),
                      expected(table().numerics(compute), compute, tensor.values(), x, inputs)))
            << gguf::to_string(type) << " in " << to_string(compute) << ", rows " << rows;
      }
    }
  }
}

TEST_P(LinearTest, SmallTypesStayPacked) {
  for (const TensorType type : {TensorType::q4_0, TensorType::q4_1, TensorType::q8_0}) {
    const OwnedTensor tensor(type, 1536, 64, 7);
    const PackedMatrix matrix = pack_or_die(table(), Compute::bf16, {&tensor});
    EXPECT_LE(matrix.bytes(), tensor.bytes.size() + 64 * 4) << gguf::to_string(type);
  }
}

TEST_P(LinearTest, AnyShape) {
  for (const std::size_t inputs : {32u, 36u, 160u, 576u, 1000u}) {
    for (const std::size_t outputs : {1u, 15u, 16u, 47u, 48u, 100u}) {
      const OwnedTensor tensor(TensorType::f16, inputs, outputs, 3);
      const PackedMatrix matrix = pack_or_die(table(), Compute::bf16, {&tensor});
      const std::size_t rows = 13;
      const std::vector<float> x = random_floats(rows * inputs, 5);
      EXPECT_TRUE(same_bits(
          multiply(table(), Compute::bf16, matrix, x, rows),
          expected(table().numerics(Compute::bf16), Compute::bf16, tensor.values(), x, inputs)))
          << inputs << " to " << outputs;
    }
  }
}

// Rows and threads are a matter of speed only.
TEST_P(LinearTest, ARowDoesNotDependOnOtherRowsOrThreads) {
  for (const TensorType type : {TensorType::q4_1, TensorType::q8_0, TensorType::bf16}) {
    const std::size_t inputs = 192, outputs = 200, most_rows = 70;
    const OwnedTensor tensor(type, inputs, outputs, 21);
    const PackedMatrix matrix = pack_or_die(table(), Compute::bf16, {&tensor});
    const std::vector<float> x = random_floats(most_rows * inputs, 22);
    std::vector<float> one_by_one;
    for (std::size_t r = 0; r < most_rows; ++r) {
      const std::vector<float> row(x.begin() + static_cast<std::ptrdiff_t>(r * inputs),
                                   x.begin() + static_cast<std::ptrdiff_t>((r + 1) * inputs));
      const std::vector<float> y = multiply(table(), Compute::bf16, matrix, row, 1);
      one_by_one.insert(one_by_one.end(), y.begin(), y.end());
    }
    for (std::size_t rows = 1; rows <= most_rows; ++rows) {
      const std::vector<float> y =
          multiply(table(), Compute::bf16, matrix, x, rows, static_cast<int>(1 + rows % 4));
      EXPECT_TRUE(same_bits(y, std::span(one_by_one).first(rows * outputs)))
          << gguf::to_string(type) << ", " << rows << " rows";
    }
  }
}

TEST_P(LinearTest, StackedTensorsAreOneMatrix) {
  const std::size_t inputs = 256, rows = 9;
  const OwnedTensor a(TensorType::q4_1, inputs, 48, 1), b(TensorType::q4_1, inputs, 24, 2),
      c(TensorType::q8_0, inputs, 40, 3), d(TensorType::q6_k, inputs, 16, 4);
  const std::vector<float> x = random_floats(rows * inputs, 5);
  // Same type; different types cut at a panel; different types that share a panel.
  const std::vector<std::vector<const OwnedTensor*>> stacks = {{&a, &b}, {&a, &c}, {&b, &c, &d}};
  for (const auto& stack : stacks) {
    std::vector<float> weights;
    for (const OwnedTensor* tensor : stack) {
      const std::vector<float> values = tensor->values();
      weights.insert(weights.end(), values.begin(), values.end());
    }
    const PackedMatrix matrix = pack_or_die(table(), Compute::bf16, stack);
    EXPECT_EQ(matrix.outputs(), weights.size() / inputs);
    EXPECT_TRUE(
        same_bits(multiply(table(), Compute::bf16, matrix, x, rows, 2),
                  expected(table().numerics(Compute::bf16), Compute::bf16, weights, x, inputs)));
  }
}

TEST_P(LinearTest, AddsToWhatIsThereAndLeavesTheRestAlone) {
  const std::size_t inputs = 64, outputs = 20, ld = 24, rows = 8;
  const OwnedTensor tensor(TensorType::f32, inputs, outputs, 9);
  const PackedMatrix matrix = pack_or_die(table(), Compute::f32, {&tensor});
  const std::vector<float> x = random_floats(rows * inputs, 10);
  const std::vector<float> product = multiply(table(), Compute::f32, matrix, x, rows);
  PreparedRows prepared(table(), Compute::f32, inputs, rows);
  for (const std::size_t count : {std::size_t{2}, rows}) {
    std::vector<float> y = random_floats(rows * ld, 12);
    const std::vector<float> before = y;
    run_alone([&](TeamMember member) {
      prepare_rows(table(), x.data(), inputs, {0, rows}, prepared);
      linear(member, table(), matrix, prepared, rows - count, count, y.data(), ld,
             LinearOutput::add);
    });
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t i = 0; i < ld; ++i) {
        const float sum = r < count && i < outputs
                              ? before[r * ld + i] + product[(rows - count + r) * outputs + i]
                              : before[r * ld + i];
        ASSERT_EQ(y[r * ld + i], sum) << r << ", " << i;
      }
    }
  }
}

TEST_P(LinearTest, InfiniteScalesAreExpanded) {
  OwnedTensor tensor(TensorType::q4_0, 64, 16, 9);
  const std::uint16_t infinity = 0x7c00;
  std::memcpy(tensor.bytes.data(), &infinity, 2);
  const PackedMatrix matrix = pack_or_die(table(), Compute::bf16, {&tensor});
  ASSERT_EQ(matrix.segments().size(), 1u);
  EXPECT_EQ(matrix.segments()[0].format, WeightFormat::bf16);
}

TEST_P(LinearTest, RefusesWhatDoesNotFit) {
  const OwnedTensor a(TensorType::f32, 64, 16, 1), b(TensorType::f32, 32, 16, 2);
  const gguf::Tensor* different[] = {&a.tensor, &b.tensor};
  EXPECT_EQ(pack(table(), Compute::f32, different).error().code(), StatusCode::invalid_argument);
  EXPECT_EQ(pack(table(), Compute::f32, {}).error().code(), StatusCode::invalid_argument);
  gguf::Tensor unknown = a.tensor;
  unknown.type = static_cast<TensorType>(99);
  const gguf::Tensor* one[] = {&unknown};
  EXPECT_EQ(pack(table(), Compute::f32, one).error().code(), StatusCode::unimplemented);
  gguf::Tensor cut = a.tensor;
  cut.data = cut.data.first(cut.data.size() - 1);
  one[0] = &cut;
  EXPECT_EQ(pack(table(), Compute::f32, one).error().code(), StatusCode::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(Kernels, LinearTest, testing::ValuesIn(kernel_sets()), name_of);

// Same numerics, same bits, across instruction sets.
TEST(LinearFamilyTest, EqualNumericsGiveEqualBits) {
  const std::vector<KernelSet> sets = kernel_sets();
  for (const TensorType type :
       {TensorType::q4_0, TensorType::q4_1, TensorType::q8_0, TensorType::f16, TensorType::q5_k}) {
    const OwnedTensor tensor(type, 512, 72, 31);
    for (const Compute compute : {Compute::bf16, Compute::f32}) {
      for (const std::size_t rows : {std::size_t{1}, std::size_t{10}}) {
        const std::vector<float> x = random_floats(rows * 512, 32);
        std::map<std::string, std::vector<float>> of_numerics;
        for (const KernelSet& set : sets) {
          const std::vector<float> y =
              multiply(*set.table, compute, pack_or_die(*set.table, compute, {&tensor}), x, rows);
          const auto [it, added] = of_numerics.emplace(set.table->numerics(compute), y);
          EXPECT_TRUE(same_bits(it->second, y)) << set.name << " " << gguf::to_string(type);
        }
      }
    }
  }
}

}  // namespace
}  // namespace terrace::inference::test
