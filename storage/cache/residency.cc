// Where blocks are: the only code that changes it.
#include <cassert>

#include "storage/cache/impl.h"

namespace terrace::storage {

Block* TieredCache::Impl::add_block(SpaceEntry& space, Block* parent, const BlockKey& key,
                                    std::span<const Token> tokens, bool remote_tail) {
  Block* const block = catalog_.insert(space, parent, key, tokens);
  if (!block) return nullptr;
  block->remote_tail = remote_tail;
  block->created = age_unit_of(clock_.unix_ms()) & max_age_unit;
  if (block->hole()) catalog_.count_hole(1);
  if (!pins_.empty()) block->pin = pins_.floor(key);
  return block;
}

void TieredCache::Impl::touch(Block& block, std::uint64_t recency, Lease& lease, bool last) {
  const std::uint32_t shelf = space_of(block).shelf;
  candidates_.withdraw(block, shelf);
  block.recency = recency;
  if (reuse_) {
    const RequestNumber request = request_of(lease);
    reuse_->use(block, request, last);
    Block* const parent = block.parent;
    if (parent && reuse_->is_last(*parent, request)) {
      candidates_.withdraw(*parent, shelf);
      reuse_->set_not_last(*parent);
      refresh(*parent);
    }
  } else if (block.policy_uses < max_uses) {
    ++block.policy_uses;  // for who looks at it
  }
  block.host_declined = false;
  block.share_asked = false;
  if (disk_ && block.disk != DiskCopy::none && !block.touched) {
    block.touched = true;
    touched_.push_back(block.key);
  }
  if (block.disk_declined) {
    block.disk_declined = false;
    if (options_.disk_write != WritePolicy::on_evict) queue_write(block);
  }
  refresh(block);
}

RequestNumber TieredCache::Impl::request_of(Lease& lease) {
  if (lease.request == unknown_request) lease.request = reuse_->begin_request();
  return lease.request;
}

void TieredCache::Impl::attach(Block& block, Slot& slot) {
  const bool was_hole = block.hole();
  assert(!(slot.tier == Tier::device ? block.device : block.host));
  slot.block = &block;
  (slot.tier == Tier::device ? block.device : block.host) = &slot;
  if (slot.state == SlotState::copy) count_copy(block, slot.tier, true);
  count_child(block, slot.tier, true);
  settle(block, was_hole);
}

void TieredCache::Impl::become_copy(Slot& slot) {
  assert(slot.state == SlotState::loading && slot.block);
  const bool was_hole = slot.block->hole();
  slot.state = SlotState::copy;
  count_copy(*slot.block, slot.tier, true);
  settle(*slot.block, was_hole);
}

void TieredCache::Impl::detach(Slot& slot) {
  Block& block = *slot.block;
  const bool was_hole = block.hole();
  candidates_.withdraw(block, space_of(block).shelf, slot.tier);
  slot.block = nullptr;
  (slot.tier == Tier::device ? block.device : block.host) = nullptr;
  if (slot.state == SlotState::copy) count_copy(block, slot.tier, false);
  leave_to_remote(block);
  count_child(block, slot.tier, false);
  settle(block, was_hole);
}

void TieredCache::Impl::set_disk(Block& block, DiskCopy copy, std::uint64_t disk_bytes) {
  const bool was_hole = block.hole();
  if (block.disk == DiskCopy::present) --counters(Tier::disk).blocks;
  if (copy == DiskCopy::present) ++counters(Tier::disk).blocks;
  if ((block.disk == DiskCopy::none) != (copy == DiskCopy::none))
    count_child(block, Tier::disk, copy != DiskCopy::none);
  const std::uint64_t bytes_before = block.disk_bytes();
  block.disk = copy;
  block.set_disk_bytes(disk_bytes);
  disk_bytes_ += block.disk_bytes() - bytes_before;
  tenants_.add(
      space_of(block).tenant, Tier::disk,
      static_cast<std::int64_t>(block.disk_bytes()) - static_cast<std::int64_t>(bytes_before));
  block.disk_unreadable = false;
  leave_to_remote(block);
  settle(block, was_hole);
}

void TieredCache::Impl::set_redis(Block& block, RedisCopy copy) {
  const bool was_hole = block.hole();
  count_redis(block, copy);
  settle(block, was_hole);
}

void TieredCache::Impl::count_redis(Block& block, RedisCopy copy) {
  if (block.redis == RedisCopy::present) --counters(Tier::redis).blocks;
  if (copy == RedisCopy::present) ++counters(Tier::redis).blocks;
  block.redis = copy;
}

void TieredCache::Impl::leave_to_remote(Block& block) {
  if (block.occupies_local()) return;
  // Unless it was said to be there a moment ago.
  if (block.in_redis() && !remote_only_.contains(block.key)) count_redis(block, RedisCopy::none);
  if ((block.children.empty() && !block.in_redis()) || anchors_others(block)) return;
  block.remote_tail = true;
  if (block.parent) refresh(*block.parent);
}

void TieredCache::Impl::end_remote_tail(Block& block) {
  for (Block* one = &block; one && one->remote_tail; one = one->parent) {
    one->remote_tail = false;
    if (!one->kept()) catalog_.count_hole(1);
    if (one->parent) refresh(*one->parent);
  }
}

void TieredCache::Impl::recover_disk_copy(Block& block, std::uint64_t disk_bytes) {
  ++counters(Tier::disk).blocks;
  block.set_disk_bytes(disk_bytes);
  disk_bytes_ += block.disk_bytes();
  tenants_.add(space_of(block).tenant, Tier::disk, static_cast<std::int64_t>(block.disk_bytes()));
  block.disk = DiskCopy::present;
  catalog_.count_hole(-1);
  if (block.parent) block.parent->count_child_in(Tier::disk, true);
}

void TieredCache::Impl::count_copy(Block& block, Tier tier, bool is_there) {
  if (tier == Tier::device)
    block.device_copy = is_there;
  else
    block.host_copy = is_there;
  if (is_there)
    ++counters(tier).blocks;
  else
    --counters(tier).blocks;
}

void TieredCache::Impl::count_child(const Block& block, Tier tier, bool is_there) {
  if (!block.parent) return;
  block.parent->count_child_in(tier, is_there);
  refresh(*block.parent);
}

void TieredCache::Impl::settle(Block& block, bool was_hole) {
  if (block.kept()) end_remote_tail(block);
  if (block.hole() != was_hole) catalog_.count_hole(was_hole ? -1 : 1);
  refresh(block);
  Block* gone = &block;
  while (gone && !gone->present() && !gone->occupies_anything() && gone->children.empty() &&
         gone->disk_reads == 0) {
    Block* parent = gone->parent;
    candidates_.withdraw(*gone, space_of(*gone).shelf);
    if (gone->hole()) catalog_.count_hole(-1);
    if (reuse_ && gone->policy_uses > 0) reuse_->remove(*gone);
    catalog_.remove(*gone);
    if (parent) refresh(*parent);
    gone = parent;
  }
}

void TieredCache::Impl::quarantine(Slot& slot) {
  ++counters(slot.tier).corruptions;
  miss_notes_.note(slot.block->key, MissReason::corrupt);
  detach(slot);
  slot.state = SlotState::quarantined;
  quarantined_.insert(&slot);
  free_if_out_of_reach(slot);
}

void TieredCache::Impl::free_if_out_of_reach(Slot& slot) {
  if (slot.state == SlotState::dropped && slot.holders == 0 && slot.busy == 0) {
    free_slot(slot);
    return;
  }
  if (slot.state != SlotState::quarantined || slot.holders > 0 || slot.busy > 0) return;
  // Whoever sealed it may be what wrote the wrong bytes, and may do so again.
  if (sessions_.contains(slot.session)) return;
  quarantined_.erase(&slot);
  free_slot(slot);
}

void TieredCache::Impl::hold(Slot& slot) {
  ++slot.holders;
  if (slot.block) refresh(*slot.block);
}

void TieredCache::Impl::unhold(Slot& slot) {
  assert(slot.holders > 0);
  --slot.holders;
  if (slot.block) refresh(*slot.block);
  free_if_out_of_reach(slot);
}

void TieredCache::Impl::begin_use(Slot& slot) {
  ++slot.busy;
  if (slot.block) refresh(*slot.block);
}

void TieredCache::Impl::end_use(Slot& slot) {
  assert(slot.busy > 0);
  --slot.busy;
  if (slot.block) refresh(*slot.block);
  free_if_out_of_reach(slot);
}

}  // namespace terrace::storage
