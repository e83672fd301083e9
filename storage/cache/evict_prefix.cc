// Evicting a prefix on an operator's word: a block and all that follow it leave every tier, the
// last ones first, some in each turn.
#include "storage/cache/impl.h"

namespace terrace::storage {

namespace {

// The first of a block's descendants, itself included, in an order that ends with the block.
Block* first_to_go(Block& block) {
  Block* at = &block;
  while (Block* child = at->children.first()) at = child;
  return at;
}

// A pin of a block holds all that are before it.
Status pinned() {
  return Status(StatusCode::failed_precondition,
                "the block is part of a pinned prefix; unpin that first");
}

}  // namespace

void TieredCache::Impl::evict_prefix(const BlockKey& key,
                                     std::function<void(Result<std::uint64_t>)> done) {
  const Block* const block = catalog_.find(key);
  if (!block) return done(error(StatusCode::not_found, "there is no block " + key.hex()));
  if (block->pin != PinFloor::none) return done(error(pinned()));
  prefix_evictions_.push_back({key, 0, std::move(done)});
  continue_prefix_evictions();
}

void TieredCache::Impl::continue_prefix_evictions() {
  if (prefix_evictions_.empty()) return;
  PrefixEviction& eviction = prefix_evictions_.front();
  const std::uint64_t before = eviction.blocks;
  // First which, then away with them: a block that goes takes holes above it along.
  std::vector<BlockKey> keys;
  Block* const root = catalog_.find(eviction.root);
  if (root && root->pin != PinFloor::none) {  // since it began
    PrefixEviction ended = std::move(eviction);
    prefix_evictions_.pop_front();
    ended.done(error(pinned()));
    return continue_prefix_evictions();
  }
  for (Block* at = root ? first_to_go(*root) : nullptr;
       at && keys.size() < max_prefix_evictions_a_turn;) {
    keys.push_back(at->key);
    if (at == root) break;
    Block* const next = at->parent->children.after(*at);
    at = next ? first_to_go(*next) : static_cast<Block*>(at->parent);
  }
  std::vector<BlockKey> gone;
  BlockKey space;  // all are in one
  for (const BlockKey& key : keys) {
    Block* const block = catalog_.find(key);
    if (!block || !block->children.empty()) continue;
    space = space_of(*block).digest;
    strip(*block);
    if (!catalog_.find(key)) gone.push_back(key);
  }
  eviction.blocks += gone.size();
  // Also what another run of this cache or another host may have written.
  if (remote_ && !gone.empty()) remote_->erase(space, gone);
  if (!catalog_.find(eviction.root)) return finish_prefix_eviction();
  // What is at work stays until its completion brings the next turn.
  if (eviction.blocks == before) return;
  wake();
}

void TieredCache::Impl::finish_prefix_eviction() {
  PrefixEviction eviction = std::move(prefix_evictions_.front());
  prefix_evictions_.pop_front();
  if (!disk_) {
    eviction.done(eviction.blocks);
  } else {
    const Ticket ticket = new_ticket({Operation::Kind::eviction_flush});
    evicted_prefixes_.emplace(ticket, std::move(eviction));
    disk_->flush(ticket);
  }
  continue_prefix_evictions();
}

void TieredCache::Impl::finish_eviction_flush(Ticket ticket, const Status& status) {
  const auto node = evicted_prefixes_.extract(ticket);
  if (node.empty()) return;
  const PrefixEviction& eviction = node.mapped();
  eviction.done(status.ok() ? Result<std::uint64_t>(eviction.blocks) : error(status));
}

}  // namespace terrace::storage
