// Dropping a space: all of its blocks leave all tiers, some in each turn, then all that Redis has
// of it, and nothing of it is matched, acquired, reserved or sealed meanwhile.
#include <algorithm>
#include <cstring>

#include "core/bytes.h"
#include "storage/cache/impl.h"

namespace terrace::storage {

namespace {

std::string note_of(const BlockKey& digest) { return drop_note_prefix + digest.hex(); }

}  // namespace

std::uint64_t TieredCache::Impl::drop_space(const BlockKey& digest,
                                            std::function<void(Status)> done) {
  SpaceEntry* const space = catalog_.space(digest);
  if (!space) {
    done(Status(StatusCode::not_found, "there is no space " + digest.hex()));
    return 0;
  }
  std::vector<BlockKey> pinned;
  for (const auto& [key, pin] : pins_.pins())
    if (pin.space == digest) pinned.push_back(key);
  for (const BlockKey& key : pinned) remove_pin(key);
  // A drop that a crash cuts short is finished by the next start.
  if (disk_ && !space->dropping) disk_->set_note({note_of(digest), "1"});
  // It does what is left of an earlier one.
  std::erase_if(cut_drops_, [&](const CutDrop& cut) { return cut.digest == digest; });
  space->dropping = true;
  const std::uint64_t blocks = space->blocks;
  drops_.push_back({.space = space->id, .done = std::move(done)});
  continue_drops();
  return blocks;
}

void TieredCache::Impl::continue_drops() {
  if (drops_.empty()) return;
  Drop& drop = drops_.front();
  if (drop.erasing) return;
  SpaceEntry& space = *catalog_.space(drop.space);
  std::vector<BlockKey> keys;
  std::size_t looks = 0;
  bool at_end = true;
  catalog_.index().visit_from(drop.cursor, [&](Block& block) {
    if (looks++ == max_drop_looks_a_turn) {
      drop.cursor = block.key;
      at_end = false;
      return false;
    }
    if (block.space == drop.space) keys.push_back(block.key);
    return true;
  });
  for (const BlockKey& key : keys)
    if (Block* const block = catalog_.find(key)) strip(*block);
  if (space.blocks == 0) {
    if (!remote_) return finish_drop();
    return erase_drop_in_redis();
  }
  if (at_end) {
    drop.cursor = {};  // what is left is at work: its completion brings the next turn
    return;
  }
  wake();
}

void TieredCache::Impl::strip(Block& block, MissReason why) {
  miss_notes_.note(block.key, why);
  Slot* const slots[] = {block.device, block.host};
  if (block.in_redis() && !is_fetching(block)) {
    if (!block.occupies_local()) return set_redis(block, RedisCopy::none);  // the end of the block
    count_redis(block, RedisCopy::none);
  }
  if (block.on_disk() && block.disk_reads == 0) {
    disk_->erase(block.key);
    set_disk(block, DiskCopy::none, 0);  // the end of the block, unless it has a slot
  }
  for (Slot* slot : slots) {
    if (!slot || slot->state != SlotState::copy || slot->busy > 0) continue;
    detach(*slot);
    slot->state = SlotState::dropped;
    free_if_out_of_reach(*slot);
  }
}

// Last, so that nothing is on its way there any more: also what this cache knows nothing of.
void TieredCache::Impl::erase_drop_in_redis() {
  Drop& drop = drops_.front();
  drop.erasing = true;
  if (!remote_->available())
    return finish_drop_erase(Status(StatusCode::unavailable, "it is not asked, because it failed"));
  remote_->erase_space(
      {new_ticket({Operation::Kind::drop_erase}), catalog_.space(drop.space)->digest});
}

void TieredCache::Impl::finish_drop_erase(const Status& status) {
  if (!status.ok())
    drops_.front().in_redis =
        Status(status.code(),
               "dropped here, but Redis may have some of it until it is dropped again "
               "or its time to live ends: " +
                   status.message());
  finish_drop();
}

void TieredCache::Impl::finish_drop() {
  Drop drop = std::move(drops_.front());
  drops_.pop_front();
  SpaceEntry& space = *catalog_.space(drop.space);
  space.dropping = false;
  for (const Drop& other : drops_) space.dropping = space.dropping || other.space == drop.space;
  if (!disk_) {
    drop.done(drop.in_redis);
  } else {
    const Ticket ticket = new_ticket({Operation::Kind::drop_flush});
    dropped_.emplace(ticket, std::move(drop));
    disk_->flush(ticket);
  }
  continue_drops();
}

void TieredCache::Impl::finish_drop_flush(Ticket ticket, const Status& status) {
  auto node = dropped_.extract(ticket);
  if (node.empty()) return;
  const SpaceEntry& space = *catalog_.space(node.mapped().space);
  // Only now: until its blocks are gone for good a start has to look for them.
  if (status.ok() && !space.dropping) disk_->set_note({note_of(space.digest), ""});
  node.mapped().done(status.ok() ? node.mapped().in_redis : status);
}

// The disk's blocks of the space were left out by the start. What Redis has of it is erased when it
// can be reached; until then the note stays, for the next start, and Redis is not asked for any of
// it.
void TieredCache::Impl::recover_cut_drop(const DiskNote& note) {
  CutDrop cut;
  const std::string_view digest = std::string_view(note.name).substr(std::strlen(drop_note_prefix));
  if (remote_ && from_hex(digest, cut.digest.bytes))
    cut_drops_.push_back(cut);
  else
    disk_->set_note({note.name, ""});
}

bool TieredCache::Impl::waits_for_cut_drop(const BlockKey& digest) const {
  return std::ranges::find(cut_drops_, digest, &CutDrop::digest) != cut_drops_.end();
}

void TieredCache::Impl::continue_cut_drops() {
  if (cut_drops_.empty() || !remote_->available()) return;
  const std::int64_t now_ns = clock_.monotonic_ns();
  for (CutDrop& cut : cut_drops_) {
    if (cut.asked != 0 || now_ns < cut.not_before_ns) continue;
    cut.asked = new_ticket({Operation::Kind::cut_drop_erase});
    remote_->erase_space({cut.asked, cut.digest});
  }
}

void TieredCache::Impl::finish_cut_drop(Ticket ticket, const Status& status) {
  const auto cut = std::ranges::find(cut_drops_, ticket, &CutDrop::asked);
  if (cut == cut_drops_.end()) return;  // the space was dropped again meanwhile
  if (status.ok()) {
    disk_->set_note({note_of(cut->digest), ""});
    cut_drops_.erase(cut);
    return;
  }
  cut->asked = 0;
  cut->not_before_ns =
      clock_.monotonic_ns() +
      std::min(first_retry_ns << std::min<std::uint32_t>(cut->failures++, 16), longest_retry_ns);
}

}  // namespace terrace::storage
