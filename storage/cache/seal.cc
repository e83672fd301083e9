#include "storage/cache/impl.h"

namespace terrace::storage {

std::vector<SealOutcome> TieredCache::Impl::seal(SessionId session, LeaseId lease_id,
                                                 std::span<const SealRequest> blocks) {
  std::vector<SealOutcome> outcomes(blocks.size(), SealOutcome::invalid);
  const auto owner = sessions_.find(session);
  if (owner == sessions_.end() || owner->second.abandoned || draining_) return outcomes;
  const std::uint64_t recency = new_recency();
  const Block* last_sealed = nullptr;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const SealRequest& request = blocks[i];
    Slot* slot = device_.find(request.slot);
    if (!slot || slot->state != SlotState::reserved || slot->session != session ||
        slot->lease != lease_id)
      continue;
    // Whatever comes of it: this is what was waited for.
    forget_pending(*slot);
    SpaceEntry& space = *catalog_.space(slot->space);
    if (space.dropping || request.tokens.size() != space.descriptor.block_tokens) continue;
    Block* parent = nullptr;
    if (request.parent != space.digest) {
      parent = catalog_.find(request.parent);
      if (!parent || parent->space != space.id) continue;
      if (parent != last_sealed && !catalog_.reachable(*parent)) continue;
    }
    // The key comes from the tokens: a client cannot put bytes under a name of its choice.
    const BlockKey key = derive_block_key(request.parent, request.tokens);
    Block* block = catalog_.find(key);
    if (block && expired(*block)) {
      // Computed anew, it begins anew.
      erase_expired(std::span(&key, 1));
      block = catalog_.find(key);
      if (block) block->created = age_unit_of(clock_.unix_ms()) & max_age_unit;
    }
    if (block && block->device && is_fetching(*block)) give_up_fetch(*block->device);
    if (block && block->device) {
      outcomes[i] = SealOutcome::duplicate;
      if (block->kept()) last_sealed = block;
      continue;
    }
    const bool healed = block && !block->kept();
    if (!block) {
      block = add_block(space, parent, key, request.tokens);
      if (!block) continue;
    }
    if (!block->kept()) block->created = age_unit_of(clock_.unix_ms()) & max_age_unit;
    --reserved_slots_;
    slot->state = SlotState::copy;
    slot->checksum = request.checksum;
    attach(*block, *slot);
    if (block->disk_unreadable && block->on_disk()) {
      // It had to be computed again because its record cannot be read: that is to be written anew.
      // Nobody reads it, since that would be into the device slot that it did not have.
      disk_->erase(block->key);
      set_disk(*block, DiskCopy::none, 0);
    }
    touch(*block, recency, lease_of(session, lease_id), true);
    admit(*block, anchors_others(*block));
    if (options_.redis_write == WritePolicy::behind) queue_share(*block, false);
    if (healed) write_below_healed(*block);
    // Also who waits for it under the reservation of another slot.
    flights_.changed({space.id, key});
    last_sealed = block;
    outcomes[i] = SealOutcome::sealed;
  }
  copy_ahead();
  pump_writes();
  tell_waiting();
  return outcomes;
}

// What only device and host have below a hole was not written: after a crash it would be lost.
void TieredCache::Impl::write_below_healed(Block& block) {
  for (Block* child : block.children) {
    if (!child->kept()) continue;
    child->disk_declined = false;
    refresh(*child);
    if (options_.disk_write != WritePolicy::on_evict) queue_write(*child, true);
  }
}

}  // namespace terrace::storage
