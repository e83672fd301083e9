// The prompts of `terrace-bench load`: a long prefix that many share, a question that is asked
// again sometimes, and an answer that nobody has had before.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "bench/chain.h"
#include "core/block_key.h"
#include "core/space.h"

namespace terrace::bench {

constexpr std::uint32_t load_block_tokens = 32;
constexpr std::size_t load_block_bytes = 16 << 10;
constexpr std::size_t prefix_blocks = 62, question_blocks = 2, answer_blocks = 2;
constexpr std::size_t prompt_blocks = prefix_blocks + question_blocks;  // what a match asks for
constexpr std::size_t sequence_blocks = prompt_blocks + answer_blocks;

// A prompt and the answer to it.
struct Sequence {
  std::array<Token, sequence_blocks * load_block_tokens> tokens;
  std::array<BlockKey, sequence_blocks> keys;

  std::span<const Token> tokens_of(std::size_t block) const {
    return std::span(tokens).subspan(block * load_block_tokens, load_block_tokens);
  }
  BlockKey parent_of(const BlockKey& space, std::size_t block) const {
    return block == 0 ? space : keys[block - 1];
  }
};

// Draws prompts for every client. Single-threaded.
class LoadPrompts {
 public:
  LoadPrompts(const BlockKey& space, std::uint64_t seed) : random_(seed) {
    for (std::size_t i = 0; i < shared_prefixes; ++i)
      prefixes_.emplace_back(space, load_block_tokens, i, prefix_blocks);
  }

  std::span<const Chain> prefixes() const { return prefixes_; }

  // Half of the questions are new, half have been asked lately.
  void draw(Sequence& sequence) {
    const bool again = !asked_.empty() && random_() % 2 == 0;
    const std::uint64_t question = again ? asked_[random_() % asked_.size()] : random_();
    if (!again) remember(question);
    const Chain& prefix = prefixes_[question % shared_prefixes];
    std::memcpy(sequence.tokens.data(), prefix.tokens.data(), prefix.tokens.size() * sizeof(Token));
    std::memcpy(sequence.keys.data(), prefix.keys.data(), prefix.keys.size() * sizeof(BlockKey));
    write_tokens(sequence, prefix_blocks, question_blocks, question);
    write_tokens(sequence, prompt_blocks, answer_blocks, random_());
  }

  // Whether to do what is done for one in `parts`.
  bool one_in(std::size_t parts) { return random_() % parts == 0; }
  std::size_t below(std::size_t end) { return random_() % end; }

 private:
  static constexpr std::size_t shared_prefixes = 32;
  static constexpr std::size_t asked_lately = 1024;

  void remember(std::uint64_t question) {
    if (asked_.size() < asked_lately)
      asked_.push_back(question);
    else
      asked_[next_asked_++ % asked_lately] = question;
  }

  static void write_tokens(Sequence& sequence, std::size_t first, std::size_t blocks,
                           std::uint64_t seed) {
    std::minstd_rand random(static_cast<std::uint32_t>(seed ^ (seed >> 32)));
    for (std::size_t block = first; block < first + blocks; ++block) {
      for (std::size_t i = 0; i < load_block_tokens; ++i)
        sequence.tokens[block * load_block_tokens + i] =
            static_cast<Token>(random() % chain_vocabulary);
      sequence.keys[block] = derive_block_key(sequence.keys[block - 1], sequence.tokens_of(block));
    }
  }

  std::mt19937_64 random_;
  std::vector<Chain> prefixes_;
  std::vector<std::uint64_t> asked_;
  std::size_t next_asked_ = 0;
};

}  // namespace terrace::bench
