// Numbers that follow from a seed alone, on every machine: the standard's distributions do not.
#pragma once

#include <cstddef>
#include <cstdint>

namespace terrace::sim {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {  // splitmix64
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // Below `bound`, which is not 0.
  std::size_t pick(std::size_t bound) { return static_cast<std::size_t>(next() % bound); }
  // From `least` to `most`, both included.
  std::size_t between(std::size_t least, std::size_t most) {
    return least + pick(most - least + 1);
  }
  bool chance(double probability) {
    return static_cast<double>(next() >> 11) * 0x1p-53 < probability;
  }
  template <typename T, std::size_t N>
  const T& one_of(const T (&values)[N]) {
    return values[pick(N)];
  }

 private:
  std::uint64_t state_;
};

}  // namespace terrace::sim
