// Blocks that an operator brings from elsewhere: to the disk, straight from the memory they came
// in, where there is one, so that nothing in use leaves the tiers above for them; else to the
// device.
#include "storage/cache/impl.h"

namespace terrace::storage {

namespace {

ImportResult refused(std::string why) { return {ImportOutcome::refused, std::move(why)}; }
ImportResult no_room(std::string why) { return {ImportOutcome::no_room, std::move(why)}; }

}  // namespace

bool TieredCache::Impl::will_be_reachable(const Block& block) const {
  if (importing_.empty()) return catalog_.reachable(block);
  // They are done in any order: what is there may be behind what is still under way.
  for (const Block* one = &block; one; one = one->parent)
    if (!one->kept() && !importing_.contains(one->key)) return false;
  return true;
}

ImportResult TieredCache::Impl::check_import(const RecordHeader& header) const {
  const SpaceEntry* const space = catalog_.space(header.space);
  if (!space) return refused("its space is not known");
  if (space->dropping) return no_room("its space is being dropped");
  if (draining_) return no_room("terraced is stopping");
  if (header.tokens.size() != space->descriptor.block_tokens ||
      header.payload_bytes != space->descriptor.block_bytes)
    return refused("it has not the size of a block of its space");
  if (derive_block_key(header.parent, header.tokens) != header.key)
    return refused("its key is not the key of its tokens");
  if (header.parent != space->digest) {
    const Block* const parent = catalog_.find(header.parent);
    if (!parent || parent->space != space->id || !will_be_reachable(*parent) || expired(*parent))
      return refused("the block before it is not there");
  }
  if (age_unit_of(header.created_unix_ms) < oldest_created(*space))
    return refused("it is older than its space allows");
  const Block* const block = catalog_.find(header.key);
  // What is too old is erased first.
  if (block && block->kept())
    return {expired(*block) ? ImportOutcome::wanted : ImportOutcome::there, {}};
  if (block && block->occupies_local()) return no_room("it is being written or read");
  return {ImportOutcome::wanted, {}};
}

void TieredCache::Impl::import_block(const RecordHeader& header,
                                     std::shared_ptr<const std::byte> payload,
                                     std::function<void(ImportResult)> done) {
  if (ImportResult checked = check_import(header); checked.outcome != ImportOutcome::wanted)
    return done(std::move(checked));
  if (imports_.size() >= max_imports_in_flight)
    return done(no_room("too many blocks are being imported already"));
  SpaceEntry& space = *catalog_.space(header.space);
  Import import{header.key, std::move(payload), header.payload_checksum, std::move(done)};
  Block* block = catalog_.find(header.key);
  if (block && block->kept()) {
    erase_expired(std::span(&header.key, 1));
    block = catalog_.find(header.key);
    if (block && block->occupies_local())
      return import.done(no_room("an older copy of it is still in use"));
  }
  if (!block) {
    Block* const parent = header.parent == space.digest ? nullptr : catalog_.find(header.parent);
    block = add_block(space, parent, header.key, header.tokens);
    if (!block) return import.done(no_room("no more blocks can be known"));
  }
  block->created = age_unit_of(std::min(header.created_unix_ms, clock_.unix_ms())) & max_age_unit;
  block->recency = new_recency();
  if (disk_)
    import_to_disk(*block, std::move(import));
  else
    import_to_device(*block, std::move(import));
}

void TieredCache::Impl::import_to_disk(Block& block, Import import) {
  const std::uint64_t bytes = write_bytes(block);
  // Marked first, so that room is not made by evicting its own parent.
  set_disk(block, DiskCopy::writing, 0);
  if (bytes > disk_->usage().capacity_bytes ||
      make_disk_room(bytes, &space_of(block)) != Room::made) {
    set_disk(block, DiskCopy::none, 0);  // the end of the block
    return import.done(no_room("the disk tier has no room"));
  }
  set_disk(block, DiskCopy::writing, bytes);
  DiskWrite request;
  request.ticket = new_ticket({Operation::Kind::import, &block, nullptr, nullptr});
  request.space = space_of(block).digest;
  request.key = block.key;
  request.parent = block.parent ? block.parent->key : request.space;
  request.tokens.assign(block.tokens().begin(), block.tokens().end());
  request.payload = {import.payload.get(), space_of(block).descriptor.block_bytes};
  request.payload_checksum = import.checksum;
  request.recency = block.recency;
  request.created_unix_ms = latest_of_age_unit(block.created, clock_.unix_ms());
  importing_.insert(block.key);
  imports_.emplace(request.ticket, std::move(import));
  disk_->write(std::move(request));
}

void TieredCache::Impl::import_to_device(Block& block, Import import) {
  const BlockKey key = block.key;
  Slot* slot = take_device_slot(space_of(block));
  // A hole goes with the last of what followed it, which may just have been evicted.
  if (catalog_.find(key) != &block) {
    if (slot) free_slot(*slot);
    return import.done(no_room("the device tier has no room"));
  }
  // Room must not have been made by evicting what it follows.
  if (slot && block.parent && !will_be_reachable(*block.parent)) {
    free_slot(*slot);
    slot = nullptr;
  }
  if (!slot) {
    settle(block, block.hole());  // the end of the block
    return import.done(no_room("the device tier has no room"));
  }
  slot->state = SlotState::loading;
  attach(block, *slot);
  begin_use(*slot);
  const Ticket ticket = new_ticket({Operation::Kind::import, &block, slot, nullptr});
  const std::span<const std::byte> payload(import.payload.get(),
                                           space_of(block).descriptor.block_bytes);
  importing_.insert(key);
  imports_.emplace(ticket, std::move(import));
  accelerator_.copy_async(ticket, bytes_of(*slot).data(), payload);
}

void TieredCache::Impl::finish_import(Ticket ticket, const Operation& operation,
                                      const Status& status, std::uint64_t checksum,
                                      std::uint64_t disk_bytes) {
  auto node = imports_.extract(ticket);
  Import& import = node.mapped();
  importing_.erase(import.key);
  Status outcome = status;
  if (Slot* const slot = operation.slot) {
    if (outcome.ok() && checksum != import.checksum)
      outcome = Status(StatusCode::corruption, "its bytes are not what its checksum says");
    end_use(*slot);
    if (!slot->block) {
      // Sealed by a session meanwhile: the same block.
    } else if (outcome.ok()) {
      slot->checksum = checksum;
      slot->verified = true;
      become_copy(*slot);
      resolve_waiters(*slot, true);
      admit(*slot->block, anchors_others(*slot->block));
    } else {
      fail_load(*slot);
    }
  } else {
    Block& block = *operation.block;
    if (outcome.ok()) {
      write_budget_.spend(clock_.unix_ms(), disk_bytes);
      write_budget_changed_ = write_budget_.limited();
      set_disk(block, DiskCopy::present, disk_bytes);
      write_below_healed(block);
    } else {
      Block* const kept = block.kept() ? &block : nullptr;  // else it is gone in a moment
      if (outcome.code() != StatusCode::corruption) ++counters(Tier::disk).failures;
      set_disk(block, DiskCopy::none, 0);
      if (kept) queue_write(*kept);
    }
  }
  if (outcome.ok())
    import.done({ImportOutcome::imported, {}});
  else if (outcome.code() == StatusCode::corruption)
    import.done(refused(outcome.message()));
  else
    import.done(no_room(outcome.message()));
}

}  // namespace terrace::storage
