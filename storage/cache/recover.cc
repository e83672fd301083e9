// What is there at start, or comes a little later: the device arena, and what the disk knew.
#include <algorithm>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "storage/cache/impl.h"
#include "storage/cache/recovered_blocks.h"

namespace terrace::storage {

namespace {

// So many that memory which is not given back to the system shows.
constexpr std::size_t many_blocks = 100'000;

}  // namespace

Status TieredCache::Impl::attach_device(std::unique_ptr<DeviceMemory> memory) {
  if (device_.memory().size() > 0)
    return {StatusCode::failed_precondition, "there is a device tier already"};
  device_.set_memory(std::move(memory), options_.slab_bytes);
  return {};
}

void TieredCache::Impl::recover() {
  recover_from_disk();
  if (!remote_) return;
  for (const auto& space : catalog_.spaces()) remote_->add_space(space->descriptor);
}

void TieredCache::Impl::recover_from_disk() {
  if (!disk_) return;
  std::vector<DiskNote> cut_drops;  // a crash cut them short: what is left goes now
  for (const DiskNote& note : disk_->take_recovered_notes()) {
    if (note.name == write_budget_note) write_budget_.restore(note.value);
    recover_pin(note);
    if (note.name.starts_with(drop_note_prefix)) cut_drops.push_back(note);
  }
  adopt_recovered_blocks(cut_drops);
  for (const DiskNote& note : cut_drops) recover_cut_drop(note);
#ifdef __GLIBC__
  // What recovery took for a moment, here and in the disk, is more than what is kept.
  if (catalog_.index().size() >= many_blocks) ::malloc_trim(0);
#endif
}

void TieredCache::Impl::adopt_recovered_blocks(std::span<const DiskNote> cut_drops) {
  const RecoveredBlocks blocks(disk_->take_recovered_blocks());
  std::unordered_set<BlockKey> with_blocks;
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (i == 0 || blocks[i].space != blocks[i - 1].space) with_blocks.insert(blocks[i].space);
  std::unordered_set<BlockKey> dropped;
  for (const DiskNote& note : cut_drops)
    for (const BlockKey& space : with_blocks)
      if (note.name == drop_note_prefix + space.hex()) dropped.insert(space);
  for (const BlockKey& space : dropped) with_blocks.erase(space);
  // Others are opened when a client asks: all that there ever were would fill the limit some day.
  for (const SpaceDescriptor& descriptor : disk_->take_recovered_spaces())
    if (with_blocks.contains(descriptor.digest()))
      // One that does not validate has no blocks here.
      if (const auto space = catalog_.open_space(descriptor, tenants_.id_of(descriptor.tenant)))
        apply_max_age(**space);

  // From the heads on: whatever is not reached so has lost an ancestor and could never be matched.
  struct Head {
    SpaceEntry* space;
    Block* block;
  };
  std::vector<Head> heads;
  for (const auto& space : catalog_.spaces()) heads.push_back({space.get(), nullptr});
  std::vector<bool> reached(blocks.size(), false);
  std::vector<Block*> adopted;
  adopted.reserve(blocks.size());
  while (!heads.empty()) {
    const auto [space, parent] = heads.back();
    heads.pop_back();
    const BlockKey& parent_key = parent ? parent->key : space->digest;
    blocks.children(parent_key, [&](std::size_t i) {
      const RecoveredBlock& found = blocks[i];
      blocks.prefetch_behind(i);
      if (found.space != space->digest || found.tokens.size() != space->descriptor.block_tokens ||
          !blocks.agrees(i) || catalog_.find(found.key))
        return;
      Block* const block = add_block(*space, parent, found.key, found.tokens);
      if (!block) return;
      reached[i] = true;
      adopted.push_back(block);
      block->recency = std::min(found.recency, max_recency);
      block->created = age_unit_of(found.created_unix_ms) & max_age_unit;
      if (reuse_) reuse_->recover(*block);
      recency_ = std::max<std::uint64_t>(recency_, block->recency);
      recover_disk_copy(*block, found.disk_bytes);
      heads.push_back({space, block});
    });
  }
  // Only now, when it is known which of them have children: most may not leave.
  for (Block* block : adopted) refresh(*block);
  for (std::size_t i = 0; i < blocks.size(); ++i)
    if (!reached[i] && !catalog_.find(blocks[i].key)) disk_->erase(blocks[i].key);
}

Result<SpaceId> TieredCache::Impl::open_space(const SpaceDescriptor& descriptor) {
  const std::size_t known = catalog_.spaces().size();
  auto space = catalog_.open_space(descriptor, tenants_.id_of(descriptor.tenant));
  if (!space) return error(space.error());
  if (catalog_.spaces().size() > known) {
    apply_max_age(**space);
    if (disk_) disk_->add_space(descriptor);
    if (remote_) remote_->add_space(descriptor);
  }
  return (*space)->id;
}

}  // namespace terrace::storage
