#include "bench/replay/tree_cache.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <stdexcept>

namespace terrace::bench {

using storage::Block;
using storage::Candidate;

namespace {

SpaceDescriptor small_space() {
  SpaceDescriptor space;
  space.numerics_id = "replay";
  space.kv_dtype = "bf16";
  space.layout_id = "replay";
  space.block_tokens = 1;  // the id
  space.block_bytes = 64;
  return space;
}

// As keys are: digests.
std::vector<BlockKey> made_up_keys(std::uint32_t count) {
  std::mt19937_64 random(11);
  std::vector<BlockKey> keys(count);
  for (BlockKey& key : keys)
    for (std::size_t at = 0; at < sizeof key; at += sizeof(std::uint64_t)) {
      const std::uint64_t bits = random();
      std::memcpy(key.bytes.data() + at, &bits, sizeof bits);
    }
  return keys;
}

}  // namespace

TreeCache::TreeCache(storage::EvictionOrder order, std::size_t capacity, std::uint32_t distinct)
    : capacity_(capacity),
      keys_(made_up_keys(distinct)),
      tracker_(storage::make_reuse_tracker(order)),
      candidates_(catalog_.shelves(), false, true,
                  storage::eviction_policy_factory(tracker_.get())) {
  auto space = catalog_.open_space(small_space());
  if (!space) throw std::runtime_error(space.error().message());
  space_ = *space;
}

TreeCache::~TreeCache() = default;

std::size_t TreeCache::request(const TraceRequest& request) {
  asked_.clear();
  for (const std::uint32_t id : request.blocks) asked_.push_back(keys_[id]);
  catalog_.index().find(asked_, found_);
  const auto run = static_cast<std::size_t>(std::ranges::find(found_, nullptr) - found_.begin());
  const storage::RequestNumber number = tracker_ ? tracker_->begin_request() : 0;
  ++recency_;
  for (std::size_t i = 0; i < run; ++i) use(*found_[i], number, i + 1 == asked_.size());
  if (tracker_) tracker_->miss(std::span(asked_).subspan(run), number);
  Block* parent = run > 0 ? found_[run - 1] : nullptr;
  for (std::size_t i = run; i < asked_.size(); ++i) {
    const Token token = static_cast<Token>(request.blocks[i]);
    Block* const block = catalog_.insert(*space_, parent, asked_[i], {&token, 1});
    if (!block) throw std::runtime_error("no memory for another block");
    block->disk = storage::DiskCopy::present;
    count_child(parent, true);
    ++size_;
    use(*block, number, i + 1 == asked_.size());
    parent = block;
  }
  while (size_ > capacity_) evict_one();
  return run;
}

void TreeCache::use(Block& block, storage::RequestNumber request, bool last) {
  candidates_.withdraw(block, space_->shelf);
  block.recency = recency_;
  if (tracker_) tracker_->use(block, request, last);
  candidates_.refresh(block, space_->shelf);
}

void TreeCache::count_child(Block* parent, bool more) {
  if (!parent) return;
  parent->count_child_in(tier, more);
  candidates_.refresh(*parent, space_->shelf);
}

void TreeCache::evict_one() {
  if (tracker_) tracker_->set_capacity(tier, capacity_, capacity_);
  Block& block = *candidates_.next(tier, {}, Candidate::settled);
  Block* const parent = block.parent;
  candidates_.withdraw(block, space_->shelf);
  block.disk = storage::DiskCopy::none;
  if (tracker_) tracker_->remove(block);
  catalog_.remove(block);
  --size_;
  count_child(parent, false);
}

}  // namespace terrace::bench
