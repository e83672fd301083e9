// The threads of a warp, one after the other on the CPU: what the checksum's kernel would compute.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "storage/device/cuda/xxh3_warp.h"

namespace terrace::storage {

// A 64-bit word of each of the 32 threads.
struct WarpWord {
  std::array<std::uint64_t, warp_hash::warp_threads> of{};
};

template <typename F>
WarpWord each_thread(F&& value) {
  WarpWord result;
  for (std::uint32_t t = 0; t < warp_hash::warp_threads; ++t) result.of[t] = value(t);
  return result;
}

#define TERRACE_WARP_OPERATOR(op)                                                                  \
  inline WarpWord operator op(const WarpWord& a, const WarpWord& b) {                              \
    return each_thread([&](std::uint32_t t) { return a.of[t] op b.of[t]; });                       \
  }                                                                                                \
  template <typename Number, typename = std::enable_if_t<std::is_integral_v<Number>>>              \
  WarpWord operator op(const WarpWord& a, Number b) {                                              \
    return each_thread([&](std::uint32_t t) { return a.of[t] op static_cast<std::uint64_t>(b); }); \
  }
TERRACE_WARP_OPERATOR(+)
TERRACE_WARP_OPERATOR(*)
TERRACE_WARP_OPERATOR(^)
TERRACE_WARP_OPERATOR(&)
TERRACE_WARP_OPERATOR(>>)
#undef TERRACE_WARP_OPERATOR

struct CpuWarp {
  using Word = WarpWord;

  // Loads must be as the device wants them; false once one was not.
  bool* aligned_and_inside = nullptr;
  std::uint64_t piece_bytes = 0;

  Word thread() const {
    return each_thread([](std::uint32_t t) { return std::uint64_t{t}; });
  }
  Word shuffle_xor(const Word& word, std::uint32_t mask) const {
    return each_thread([&](std::uint32_t t) { return word.of[t ^ mask]; });
  }
  Word less(const Word& word, std::uint64_t limit) const {
    return each_thread([&](std::uint32_t t) { return std::uint64_t{word.of[t] < limit}; });
  }
  Word load(const std::uint8_t* piece, const Word& at) const {
    return each_thread([&](std::uint32_t t) {
      std::uint64_t word = 0;
      const bool good =
          at.of[t] % warp_hash::piece_alignment_bytes == 0 && at.of[t] + sizeof word <= piece_bytes;
      if (good) std::memcpy(&word, piece + at.of[t], sizeof word);
      if (!good && aligned_and_inside) *aligned_and_inside = false;
      return word;
    });
  }
  Word secret(const Word& at) const {
    return each_thread([&](std::uint32_t t) {
      std::uint64_t word = 0;
      std::memcpy(&word, reinterpret_cast<const char*>(warp_hash::secret_words) + at.of[t],
                  sizeof word);
      return word;
    });
  }
  Word first_sum(const Word& index) const {
    return each_thread([&](std::uint32_t t) { return warp_hash::first_sums[index.of[t]]; });
  }
  Word low_times_high(const Word& word) const { return (word & 0xffffffffu) * (word >> 32); }
  Word folded_product(const Word& a, const Word& b) const {
    return each_thread([&](std::uint32_t t) {
      __extension__ using Wide = unsigned __int128;
      const Wide product = static_cast<Wide>(a.of[t]) * b.of[t];
      return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
    });
  }
};

}  // namespace terrace::storage
