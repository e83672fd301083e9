// Promotion: filling device slots from host and disk, and host slots from disk where that is wanted
// (remote_load.cc: from Redis), and checking slots that workers filled.
#include "storage/cache/impl.h"

namespace terrace::storage {

// Starts to fill `slot` (loading, attached) with its block from the fastest tier that has it.
void TieredCache::Impl::start_load(Slot& slot) {
  Block& block = *slot.block;
  if (slot.tier == Tier::device && block.in_host()) {
    Slot& source = *block.host;
    begin_use(source);
    begin_use(slot);
    host_rate_.started(clock_.monotonic_ns());
    const Ticket ticket = new_ticket({Operation::Kind::load, &block, &slot, &source});
    accelerator_.copy_async(ticket, bytes_of(slot).data(), bytes_of(source));
  } else if (block.on_disk()) {
    ++block.disk_reads;  // from now on: what waits to be read must not be evicted either
    refresh(block);
    begin_use(slot);
    loads_waiting_.push_back(&slot);
    pump_loads();
  } else if (block.in_redis() && remote_usable()) {
    start_fetch(slot);
  } else {
    fail_load(slot);
  }
}

void TieredCache::Impl::pump_loads() {
  while (!loads_waiting_.empty() && disk_reads_in_flight_ < max_disk_reads_in_flight) {
    Slot& slot = *loads_waiting_.front();
    loads_waiting_.pop_front();
    Block& block = *slot.block;
    ++disk_reads_in_flight_;
    disk_rate_.started(clock_.monotonic_ns());
    DiskRead request;
    request.ticket = new_ticket({Operation::Kind::load, &block, &slot, nullptr});
    request.space = space_of(block).digest;
    request.key = block.key;
    request.parent = block.parent ? block.parent->key : request.space;
    request.tokens.assign(block.tokens().begin(), block.tokens().end());
    request.destination = bytes_of(slot);
    disk_->read(std::move(request));
  }
}

void TieredCache::Impl::finish_load(const Operation& operation, const Status& status,
                                    std::uint64_t checksum) {
  Slot& slot = *operation.slot;
  Block& block = *operation.block;
  Slot* const source = operation.other;
  const Tier tier = source ? Tier::host : Tier::disk;
  const std::int64_t now_ns = clock_.monotonic_ns();
  const std::uint64_t loaded = status.ok() ? bytes_of(slot).size() : 0;
  note_wait(slot, source ? &AcquireTimes::host_ns : &AcquireTimes::disk_ns);
  bool copy_lost = false;
  bool good = status.ok();
  if (source) {
    host_rate_.finished(now_ns, loaded);
    if (good && checksum != source->checksum) {
      good = false;
      copy_lost = true;
      if (source->block) quarantine(*source);
    } else if (!good) {
      ++counters(Tier::host).failures;
      miss_notes_.note(block.key, MissReason::failed);
    }
    end_use(*source);
  } else {
    disk_rate_.finished(now_ns, loaded);
    --disk_reads_in_flight_;
    --block.disk_reads;
    if (!good) {
      copy_lost = status.code() == StatusCode::corruption || status.code() == StatusCode::not_found;
      ++(status.code() == StatusCode::corruption ? counters(Tier::disk).corruptions
                                                 : counters(Tier::disk).failures);
      miss_notes_.note(block.key, status.code() == StatusCode::corruption ? MissReason::corrupt
                                                                          : MissReason::failed);
      // `slot` still belongs to the block, so this does not remove it.
      if (copy_lost) set_disk(block, DiskCopy::none, 0);
      block.disk_unreadable = !copy_lost;
    } else {
      block.disk_unreadable = false;
    }
    refresh(block);
  }
  end_use(slot);
  if (good) {
    slot.checksum = checksum;
    slot.verified = true;
    ++counters(tier).promotions;
    become_copy(slot);
    resolve_waiters(slot, true);
  } else {
    ++counters(tier).misses;
    // Another tier may have it. Not after other errors: that could go on for ever.
    if (copy_lost && block.present()) {
      start_load(slot);
    } else {
      fail_load(slot);
    }
  }
}

void TieredCache::Impl::fail_load(Slot& slot) {
  resolve_waiters(slot, false);
  // Whoever asks is told anew.
  if (slot.block->in_redis() && !slot.block->kept()) set_redis(*slot.block, RedisCopy::none);
  detach(slot);
  free_slot(slot);
}

void TieredCache::Impl::start_check(Slot& slot) {
  slot.verifying = true;
  begin_use(slot);
  const Ticket ticket = new_ticket({Operation::Kind::verify, slot.block, &slot, nullptr});
  accelerator_.checksum_async(ticket, bytes_of(slot));
}

void TieredCache::Impl::finish_check(const Operation& operation, const Status& status,
                                     std::uint64_t checksum) {
  Slot& slot = *operation.slot;
  slot.verifying = false;
  note_wait(slot, &AcquireTimes::check_ns);
  const bool good = status.ok() && checksum == slot.checksum && slot.block;
  if (good) slot.verified = true;
  resolve_waiters(slot, good);
  if (!good) ++counters(Tier::device).misses;
  if (!status.ok()) {
    ++counters(Tier::device).failures;
  } else if (!good && slot.block) {
    quarantine(slot);
  }
  end_use(slot);
}

}  // namespace terrace::storage
