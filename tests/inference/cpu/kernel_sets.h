// The kernel tables that tests run on, and the arithmetic that each of them promises.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "inference/cpu/kernel_table.h"
#include "inference/cpu/team.h"

namespace terrace::inference::test {

struct KernelSet {
  std::string name;
  const KernelTable* table;
};

// Those that this processor runs, and those of AVX-512 on an emulation of its instructions.
std::vector<KernelSet> kernel_sets();

inline std::string name_of(const testing::TestParamInfo<KernelSet>& set) { return set.param.name; }

inline float round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
}

// One sum over k, in the order and with the roundings of a numerics family.
inline float chain(const std::string& numerics, std::span<const float> a,
                   std::span<const float> b) {
  float sum = 0;
  if (numerics == "mul-add") {
    for (std::size_t k = 0; k < a.size(); ++k) {
      const float product = a[k] * b[k];
      sum = sum + product;
    }
  } else if (numerics == "fma") {
    for (std::size_t k = 0; k < a.size(); ++k) sum = std::fma(a[k], b[k], sum);
  } else {  // dpbf16: of each pair the second first, subnormals taken as zero
    const auto flush = [](float x) {
      return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x;
    };
    const auto step = [&](std::size_t k) {
      const float x = k < a.size() ? a[k] : 0, w = k < b.size() ? b[k] : 0;
      sum = flush(std::fma(flush(x), flush(w), sum));
    };
    for (std::size_t k = 0; k < a.size(); k += 2) {
      step(k + 1);
      step(k);
    }
  }
  return sum;
}

inline std::vector<float> random_floats(std::size_t count, unsigned seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// Runs a function of one thread as a member of a team of one.
template <typename Function>
void run_alone(Function&& function) {
  Team team(1);
  team.run(function);
}

}  // namespace terrace::inference::test
