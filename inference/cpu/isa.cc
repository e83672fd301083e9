#include "inference/cpu/isa.h"

#include <cpuid.h>

#include <cstdint>
#include <initializer_list>

namespace terrace::inference {

namespace {

struct Registers {
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(std::uint32_t leaf, std::uint32_t subleaf) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d);  // zeros where there is no such leaf
  return r;
}

bool bit(std::uint32_t word, int index) { return (word >> index & 1) != 0; }

// The register state that the operating system saves: XCR0.
std::uint64_t saved_state() {
  const Registers leaf1 = cpuid(1, 0);
  if (!bit(leaf1.c, 27)) return 0;  // OSXSAVE
  std::uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return std::uint64_t{high} << 32 | low;
}

struct Features {
  bool avx2 = false, avx512 = false, avx512_bf16 = false;

  Features() {
    constexpr std::uint64_t ymm = 0x6, zmm = 0xe6;
    const std::uint64_t state = saved_state();
    const Registers leaf1 = cpuid(1, 0), leaf7 = cpuid(7, 0), leaf7_1 = cpuid(7, 1);
    avx2 = (state & ymm) == ymm && bit(leaf7.b, 5) && bit(leaf1.c, 12) && bit(leaf1.c, 29);
    const bool f = bit(leaf7.b, 16), dq = bit(leaf7.b, 17), bw = bit(leaf7.b, 30),
               vl = bit(leaf7.b, 31);
    avx512 = avx2 && (state & zmm) == zmm && f && dq && bw && vl;
    avx512_bf16 = avx512 && bit(leaf7_1.a, 5);
  }
};

}  // namespace

const char* to_string(Compute compute) { return compute == Compute::bf16 ? "bf16" : "f32"; }

const char* to_string(Isa isa) {
  switch (isa) {
    case Isa::automatic:
      return "auto";
    case Isa::portable:
      return "portable";
    case Isa::avx2:
      return "avx2";
    case Isa::avx512:
      return "avx512";
    case Isa::avx512_bf16:
      return "avx512_bf16";
  }
  return "unknown";
}

bool supported(Isa isa) {
  const Features features;
  switch (isa) {
    case Isa::automatic:
    case Isa::portable:
      return true;
    case Isa::avx2:
      return features.avx2;
    case Isa::avx512:
      return features.avx512;
    case Isa::avx512_bf16:
      return features.avx512_bf16;
  }
  return false;
}

Isa best_isa() {
  for (const Isa isa : {Isa::avx512_bf16, Isa::avx512, Isa::avx2}) {
    if (supported(isa)) return isa;
  }
  return Isa::portable;
}

}  // namespace terrace::inference
