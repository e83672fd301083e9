#include "storage/cache/recovered_blocks.h"

#include <algorithm>
#include <bit>
#include <thread>

namespace terrace::storage {

namespace {

// Named limits. Fewer blocks are not worth a thread.
constexpr std::size_t max_threads = 8;
constexpr std::size_t least_blocks_a_thread = 10'000;
// How far behind a block memory is asked for: farther than those that were written at the same time
// are out of order.
constexpr std::size_t prefetch_block_distance = 2048, prefetch_tokens_distance = 1024;
constexpr std::size_t cache_line_bytes = 64;

void prefetch(const void* from, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += cache_line_bytes)
    __builtin_prefetch(static_cast<const std::byte*>(from) + at);
}

}  // namespace

RecoveredBlocks::RecoveredBlocks(std::vector<RecoveredBlock> blocks) : blocks_(std::move(blocks)) {
  if (blocks_.size() >= none) blocks_.resize(none - 1);
  if (blocks_.empty()) return;
  agrees_.resize(blocks_.size());
  const std::size_t threads =
      std::clamp<std::size_t>(std::min<std::size_t>(std::thread::hardware_concurrency(),
                                                    blocks_.size() / least_blocks_a_thread),
                              1, max_threads);
  const std::size_t share = (blocks_.size() + threads - 1) / threads;
  std::vector<std::thread> others;
  for (std::size_t first = share; first < blocks_.size(); first += share)
    others.emplace_back([this, first, share] { check(first, first + share); });
  check(0, share);

  heads_.assign(std::bit_ceil(blocks_.size()), none);
  next_.resize(blocks_.size());
  // Backwards, so that lists are in the order of the blocks.
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    std::uint32_t& head = heads_[place_of(blocks_[i].parent)];
    next_[i] = head;
    head = static_cast<std::uint32_t>(i);
  }
  for (std::thread& other : others) other.join();
}

void RecoveredBlocks::prefetch_behind(std::size_t index) const {
  if (index + prefetch_block_distance >= blocks_.size()) return;
  prefetch(&blocks_[index + prefetch_block_distance], sizeof(RecoveredBlock));
  const RecoveredBlock& nearer = blocks_[index + prefetch_tokens_distance];
  prefetch(nearer.tokens.data(), nearer.tokens.size() * sizeof(Token));
  __builtin_prefetch(&heads_[place_of(nearer.key)]);
}

void RecoveredBlocks::check(std::size_t first, std::size_t end) {
  for (std::size_t i = first; i < std::min(end, blocks_.size()); ++i) {
    const RecoveredBlock& block = blocks_[i];
    agrees_[i] = derive_block_key(block.parent, block.tokens) == block.key;
  }
}

}  // namespace terrace::storage
