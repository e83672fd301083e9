// Writing to disk what only device and host hold: as soon as it is sealed, when it is used again,
// or ahead of its eviction, as the policy says; heads before tails.
#include <algorithm>

#include "storage/cache/impl.h"

namespace terrace::storage {

void TieredCache::Impl::queue_write(Block& block, bool known_reachable) {
  if (!disk_ || block.write_queued || block.disk != DiskCopy::none || block.disk_declined) return;
  // Below a hole a block would be an orphan after a restart. Declined until the hole is healed, so
  // that it may be evicted.
  if (!known_reachable && !catalog_.reachable(block)) return decline_disk(block);
  std::vector<Block*> chain;
  for (Block* one = &block; one && one->disk == DiskCopy::none && !one->write_queued;
       one = one->parent)
    chain.push_back(one);
  for (auto one = chain.rbegin(); one != chain.rend(); ++one) {
    (*one)->disk_declined = false;
    push_write(**one);
  }
}

void TieredCache::Impl::push_write(Block& block) {
  block.write_queued = true;
  refresh(block);
  write_queue_.push_back({block.key, write_bytes(block)});
  queued_write_bytes_ += write_queue_.back().bytes;
}

bool TieredCache::Impl::may_write_behind(const Block& block) const {
  const std::uint64_t on_their_way = queued_write_bytes_ + write_bytes_in_flight_;
  return write_budget_.allows(clock_.unix_ms(), on_their_way + write_bytes(block));
}

void TieredCache::Impl::admit(Block& block, bool closes_a_hole) {
  if (host_ && options_.host_write == WritePolicy::behind) to_host_.push_back(block.key);
  if (host_ && options_.host_write == WritePolicy::on_second_use) {
    block.host_declined = true;
    refresh(block);
  }
  if (!disk_ || block.disk != DiskCopy::none || block.write_queued) return;
  // It is reachable, or it could not have been sealed or acquired. What has descendants was used
  // before: it closes a hole, which a restart would open again.
  if (block.pin != PinFloor::none ||
      (closes_a_hole && options_.disk_write != WritePolicy::on_evict))
    return queue_write(block, true);
  if (options_.disk_write == WritePolicy::on_evict) return;
  if (options_.disk_write == WritePolicy::behind && may_write_behind(block))
    return queue_write(block, true);
  ++declined_writes_;
  decline_disk(block);
}

void TieredCache::Impl::save_write_budget() {
  if (disk_ && std::exchange(write_budget_changed_, false))
    disk_->set_note({write_budget_note, write_budget_.save()});
}

void TieredCache::Impl::pump_writes() {
  if (!disk_) return;
  const std::int64_t now_ns = clock_.monotonic_ns();
  // Each entry is looked at once a turn at most: those whose parent is queued behind them go to the
  // back.
  for (std::size_t left = write_queue_.size(); left > 0; --left) {
    if (now_ns < write_not_before_ns_ || writes_in_flight_ >= max_disk_writes_in_flight ||
        write_bytes_in_flight_ >= max_disk_write_bytes_in_flight)
      return;
    const QueuedWrite entry = write_queue_.front();
    write_queue_.pop_front();
    queued_write_bytes_ -= entry.bytes;
    Block* block = catalog_.find(entry.key);
    if (!block || !block->write_queued) continue;
    Slot* source = block->in_device() ? block->device.get()
                   : block->in_host() ? block->host.get()
                                      : nullptr;
    if (block->disk != DiskCopy::none || !source || space_of(*block).dropping) {
      block->write_queued = false;
      refresh(*block);
      continue;
    }
    if (Block* parent = block->parent; parent && parent->disk == DiskCopy::none) {
      if (parent->write_queued) {
        write_queue_.push_back(entry);
        queued_write_bytes_ += entry.bytes;
        continue;
      }
      // The parent was declined, is a hole, or its write turned out to be impossible. The block
      // must not wait in memory for a write that will not come.
      block->write_queued = false;
      decline_disk(*block);
      continue;
    }
    block->write_queued = false;
    const std::uint64_t bytes = entry.bytes;
    if (bytes > disk_->usage().capacity_bytes) {
      // No eviction would make room for it.
      decline_disk(*block);
      continue;
    }
    // Marked first, so that room is not made by evicting its own parent.
    set_disk(*block, DiskCopy::writing, 0);
    if (const Room room = make_disk_room(bytes, &space_of(*block)); room != Room::made) {
      set_disk(*block, DiskCopy::none, 0);
      // What is being read or written may be evicted later.
      if (room == Room::none && writes_in_flight_ == 0 && disk_reads_in_flight_ == 0) {
        decline_disk(*block);
        continue;
      }
      block->write_queued = true;
      refresh(*block);
      write_queue_.push_front(entry);
      queued_write_bytes_ += entry.bytes;
      return;
    }
    set_disk(*block, DiskCopy::writing, bytes);
    start_write(*block, *source);
  }
}

void TieredCache::Impl::start_write(Block& block, Slot& source) {
  begin_use(source);
  ++writes_in_flight_;
  write_bytes_in_flight_ += write_bytes(block);
  DiskWrite request;
  request.ticket = new_ticket({Operation::Kind::write, &block, &source, nullptr});
  request.space = space_of(block).digest;
  request.key = block.key;
  request.parent = block.parent ? block.parent->key : request.space;
  request.tokens.assign(block.tokens().begin(), block.tokens().end());
  request.payload = bytes_of(source);
  request.payload_checksum = source.checksum;
  request.recency = block.recency;
  request.created_unix_ms = latest_of_age_unit(block.created, clock_.unix_ms());
  disk_->write(std::move(request));
}

void TieredCache::Impl::finish_write(const Operation& operation, const DiskCompletion& completion) {
  Block& block = *operation.block;
  Slot& source = *operation.slot;
  --writes_in_flight_;
  write_bytes_in_flight_ -= write_bytes(block);
  const std::uint64_t wanted = block.disk_bytes();
  const StatusCode code = completion.status.code();
  if (code != StatusCode::corruption && code != StatusCode::no_space) {
    write_budget_.spend(clock_.unix_ms(), code == StatusCode::ok ? completion.disk_bytes : wanted);
    write_budget_changed_ = write_budget_.limited();
  }
  if (code == StatusCode::ok) {
    write_failures_ = no_space_answers_ = 0;
    ++counters(source.tier).demotions;
    source.verified = true;  // the disk saw the payload agree with its checksum
    set_disk(block, DiskCopy::present, completion.disk_bytes);
    end_use(source);
    return;
  }
  ++counters(Tier::disk).failures;
  if (code == StatusCode::corruption) {
    // Not the disk's fault: the copy in memory is not what was sealed.
    if (source.block) quarantine(source);
    end_use(source);
    Block* const kept = block.kept() ? &block : nullptr;
    set_disk(block, DiskCopy::none, 0);
    if (kept) queue_write(*kept);
    return;
  }
  Block* const kept = block.kept() ? &block : nullptr;  // else it is gone in a moment
  set_disk(block, DiskCopy::none, 0);
  end_use(source);
  if (!kept) return;
  if (code == StatusCode::no_space && no_space_answers_ < max_no_space_answers) {
    std::uint64_t freed = 0;
    const std::uint64_t target = wanted << no_space_answers_++;
    for (std::size_t evicted = 0; freed < target && evicted < max_evictions_a_turn; ++evicted) {
      Block* victim = next_disk_victim(&space_of(*kept));
      if (!victim || victim == kept->parent) break;
      freed += victim->disk_bytes();
      evict(*victim, Tier::disk);
    }
    if (freed == 0 && writes_in_flight_ == 0 && disk_reads_in_flight_ == 0) {
      decline_disk(*kept);
      return;
    }
  } else {
    ++write_failures_;
    const std::int64_t wait_ns = std::min(
        first_retry_ns << std::min<std::uint32_t>(write_failures_ - 1, 16), longest_retry_ns);
    write_not_before_ns_ = clock_.monotonic_ns() + wait_ns;
  }
  if (!kept->write_queued) push_write(*kept);
}

void TieredCache::Impl::decline_disk(Block& block) {
  block.disk_declined = true;
  refresh(block);
}

void TieredCache::Impl::flush_recency(std::size_t limit) {
  if (!disk_ || touched_.empty()) return;
  const std::size_t count = std::min(limit, touched_.size());
  std::vector<std::pair<std::uint64_t, BlockKey>> batch;
  batch.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    Block* block = catalog_.find(touched_[i]);
    if (!block || !block->touched) continue;
    block->touched = false;
    if (block->disk != DiskCopy::none)
      batch.emplace_back(std::uint64_t{block->recency}, block->key);
  }
  touched_.erase(touched_.begin(), touched_.begin() + static_cast<std::ptrdiff_t>(count));
  std::ranges::sort(batch);
  std::vector<BlockKey> keys;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    keys.push_back(batch[i].second);
    if (i + 1 < batch.size() && batch[i + 1].first == batch[i].first) continue;
    disk_->touch(keys, batch[i].first);
    keys.clear();
  }
}

}  // namespace terrace::storage
