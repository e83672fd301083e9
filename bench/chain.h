// Prompts of random tokens, and the space of small blocks that benchmarks of metadata put them in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "core/block_key.h"
#include "core/space.h"

namespace terrace::bench {

constexpr Token chain_vocabulary = 128'000;

inline SpaceDescriptor small_space(std::uint32_t block_tokens, std::uint64_t block_bytes) {
  SpaceDescriptor space;
  space.numerics_id = "bench";
  space.kv_dtype = "bf16";
  space.layout_id = "bench";
  space.block_tokens = block_tokens;
  space.block_bytes = block_bytes;
  space.label = "terrace-bench";
  return space;
}

// Full blocks that follow one another. Made anew from its number whenever it is needed, so that
// only the cache takes memory.
struct Chain {
  std::uint32_t block_tokens;
  std::vector<Token> tokens;
  std::vector<BlockKey> keys;

  Chain(const BlockKey& space, std::uint32_t tokens_a_block, std::uint64_t number,
        std::size_t blocks)
      : block_tokens(tokens_a_block) {
    std::mt19937_64 random(number);
    tokens.resize(blocks * block_tokens);
    for (Token& token : tokens) token = static_cast<Token>(random() % chain_vocabulary);
    keys = derive_block_keys(space, tokens, block_tokens);
  }

  std::vector<Token> tokens_of(std::size_t block) const {
    const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(block * block_tokens);
    return {first, first + block_tokens};
  }
  BlockKey parent_of(const BlockKey& space, std::size_t block) const {
    return block == 0 ? space : keys[block - 1];
  }
};

}  // namespace terrace::bench
