#include "storage/cache/impl.h"

namespace terrace::storage {

MatchResult TieredCache::Impl::match(SpaceId space_id, std::span<const BlockKey> keys,
                                     std::span<const Token> tokens) const {
  MatchResult result;
  result.blocks.assign(keys.size(), BlockState::absent);
  const SpaceEntry* space = usable_space(space_id);
  if (!space) return result;

  const Block* last = nullptr;
  const std::int64_t now_ns = clock_.monotonic_ns();
  const std::uint64_t block_bytes = space->descriptor.block_bytes;
  const double host_ns = host_rate_.estimate_ns(now_ns, block_bytes);
  const double disk_ns = disk_rate_.estimate_ns(now_ns, block_bytes);
  const double redis_ns = redis_rate_.estimate_ns(now_ns, block_bytes);
  double load_ns = 0;
  bool leading = true;
  const bool remote = remote_usable();
  const std::int64_t oldest = oldest_created(*space);
  catalog_.index().find_each(keys, [&](std::size_t i, const Block* block) {
    if (!block || block->space != space_id || !obtainable(*block, remote) ||
        block->created < oldest) {
      leading = false;
      if (flights_.pending({space_id, keys[i]})) result.blocks[i] = BlockState::pending;
      return;
    }
    const Tier tier = block->highest_tier();
    result.blocks[i] = block_state(tier);
    if (!leading) return;
    ++result.matched_blocks;
    last = block;
    if (tier == Tier::host) load_ns += host_ns;
    if (tier == Tier::disk) load_ns += disk_ns;
    if (tier == Tier::redis) load_ns += redis_ns;
  });
  result.load_ns = static_cast<std::uint64_t>(load_ns);

  const std::size_t block_tokens = space->descriptor.block_tokens;
  const std::size_t matched_tokens = result.matched_blocks * block_tokens;
  if (matched_tokens < tokens.size()) {
    const auto rest = tokens.subspan(matched_tokens);
    const auto [block, shared] =
        catalog_.best_partial(*space, last, rest.first(std::min(block_tokens, rest.size())));
    // A whole block that is there under another key differs in what is no token: images, a salt.
    if (block && shared < block_tokens && block->created >= oldest) {
      result.partial_tokens = shared;
      result.partial_key = block->key;
      result.partial_tier = block->highest_tier();
    }
  }
  return result;
}

}  // namespace terrace::storage
