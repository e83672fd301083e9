// The prompts of the soak, which its workers put and get and its operator names: made anew from
// numbers in every process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "core/block_key.h"
#include "core/space.h"

namespace terrace::integration {

constexpr std::uint32_t soak_block_tokens = 32;
constexpr std::size_t soak_block_bytes = 32 << 10;
// Together more than the device and the disk of the soak hold.
constexpr std::uint64_t soak_prompts = 400;
constexpr std::size_t soak_prompt_blocks = 12, soak_shared_blocks = 4;
constexpr std::uint64_t soak_shared_prefixes = 8;

inline SpaceDescriptor soak_space() {
  SpaceDescriptor space;
  space.numerics_id = "soak";
  space.kv_dtype = "bf16";
  space.layout_id = "soak";
  space.block_tokens = soak_block_tokens;
  space.block_bytes = soak_block_bytes;
  space.label = "soak";
  return space;
}

// The prompt of a number below soak_prompts.
inline std::vector<Token> soak_prompt(std::uint64_t number) {
  std::vector<Token> tokens(soak_prompt_blocks * soak_block_tokens);
  std::minstd_rand shared(static_cast<std::uint32_t>(1 + number % soak_shared_prefixes));
  std::minstd_rand own(static_cast<std::uint32_t>(1000 + number));
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<Token>((i < soak_shared_blocks * soak_block_tokens ? shared() : own()) %
                                   100'000);
  return tokens;
}

}  // namespace terrace::integration
