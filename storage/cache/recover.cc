// What is there at start, or comes a little later: the device arena, and what the disk knew.
#include <algorithm>

#include "storage/cache/impl.h"

namespace terrace::storage {

Status TieredCache::Impl::attach_device(std::unique_ptr<DeviceMemory> memory) {
  if (device_.memory().size() > 0)
    return {StatusCode::failed_precondition, "there is a device tier already"};
  device_.set_memory(std::move(memory), options_.slab_bytes);
  return {};
}

void TieredCache::Impl::recover() {
  if (!disk_) return;
  for (const DiskNote& note : disk_->take_recovered_notes())
    if (note.name == write_budget_note) write_budget_.restore(note.value);
  std::vector<RecoveredBlock> blocks = disk_->take_recovered_blocks();
  std::unordered_map<BlockKey, std::vector<std::size_t>> by_parent;
  std::unordered_set<BlockKey> with_blocks;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    by_parent[blocks[i].parent].push_back(i);
    with_blocks.insert(blocks[i].space);
  }
  // Others are opened when a client asks: all that there ever were would fill the limit some day.
  for (const SpaceDescriptor& descriptor : disk_->take_recovered_spaces())
    if (with_blocks.contains(descriptor.digest()))
      (void)catalog_.open_space(descriptor);  // one that does not validate has no blocks here

  // From the heads on: whatever is not reached so has lost an ancestor and could never be matched.
  struct Head {
    SpaceEntry* space;
    Block* block;
  };
  std::vector<Head> heads;
  for (const auto& space : catalog_.spaces()) heads.push_back({space.get(), nullptr});
  std::vector<bool> reached(blocks.size(), false);
  while (!heads.empty()) {
    const auto [space, parent] = heads.back();
    heads.pop_back();
    const BlockKey& parent_key = parent ? parent->key : space->digest;
    const auto children = by_parent.find(parent_key);
    if (children == by_parent.end()) continue;
    for (const std::size_t i : children->second) {
      RecoveredBlock& found = blocks[i];
      // An index that does not agree with itself is not believed.
      if (found.space != space->digest || found.tokens.size() != space->descriptor.block_tokens ||
          derive_block_key(parent_key, found.tokens) != found.key || catalog_.find(found.key))
        continue;
      Block* const block = catalog_.insert(*space, parent, found.key, found.tokens);
      if (!block) continue;
      reached[i] = true;
      catalog_.count_hole(1);
      block->recency = found.recency;
      recency_ = std::max(recency_, found.recency);
      set_disk(*block, DiskCopy::present, found.disk_bytes);
      heads.push_back({space, block});
    }
  }
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (!reached[i] && !catalog_.find(blocks[i].key)) disk_->erase(blocks[i].key);
}

Result<SpaceId> TieredCache::Impl::open_space(const SpaceDescriptor& descriptor) {
  const std::size_t known = catalog_.spaces().size();
  auto space = catalog_.open_space(descriptor);
  if (!space) return error(space.error());
  if (disk_ && catalog_.spaces().size() > known) disk_->add_space(descriptor);
  return (*space)->id;
}

}  // namespace terrace::storage
