// What engines have completed, and what time brings.
#include <algorithm>

#include "storage/cache/impl.h"

namespace terrace::storage {

TieredCache::Impl::Impl(const CacheOptions& options, Accelerator& accelerator,
                        std::unique_ptr<DiskTier> disk, std::unique_ptr<RemoteTier> remote,
                        const Clock& clock, std::unique_ptr<DeviceMemory> device,
                        std::unique_ptr<DeviceMemory> host)
    : options_(options),
      accelerator_(accelerator),
      disk_(std::move(disk)),
      remote_(std::move(remote)),
      clock_(clock),
      device_(Tier::device, std::move(device), options.slab_bytes, catalog_.slots()),
      reuse_(make_reuse_tracker(options.eviction)),
      candidates_(catalog_.shelves(), host != nullptr, disk_ != nullptr,
                  eviction_policy_factory(reuse_.get())),
      tenants_(options.tenants),
      write_budget_(options.write_behind_hour_bytes, options.write_behind_day_bytes) {
  if (host) host_.emplace(Tier::host, std::move(host), options.slab_bytes, catalog_.slots());
  tiers_here_.push_back(Tier::device);
  if (host_) tiers_here_.push_back(Tier::host);
  if (disk_) tiers_here_.push_back(Tier::disk);
  const auto notify = [waker = waker_] {
    const std::lock_guard lock(waker->mutex);
    if (waker->wake) waker->wake();
  };
  accelerator_.set_notify(notify);
  if (disk_) disk_->set_notify(notify);
  if (remote_) remote_->set_notify(notify);
}

TieredCache::Impl::~Impl() {
  set_wake(nullptr);
  // Engines let go of the arenas before the arenas go.
  disk_.reset();
  remote_.reset();
  accelerator_.set_notify(nullptr);
  accelerator_.synchronize();
  accelerator_.take_completions(copy_completions_);
}

void TieredCache::Impl::set_wake(std::function<void()> wake) {
  const std::lock_guard lock(waker_->mutex);
  waker_->wake = std::move(wake);
}

Ticket TieredCache::Impl::new_ticket(Operation operation) {
  const Ticket ticket = next_ticket_++;
  operations_.emplace(ticket, operation);
  return ticket;
}

std::uint64_t TieredCache::Impl::new_recency() {
  recency_ = std::max<std::uint64_t>(recency_ + 1, static_cast<std::uint64_t>(clock_.unix_ms()));
  return recency_;
}

std::span<std::byte> TieredCache::Impl::bytes_of(const Slot& slot) const {
  return (slot.tier == Tier::device ? device_ : *host_).bytes(slot, *catalog_.space(slot.space));
}

void TieredCache::Impl::wake() {
  const std::lock_guard lock(waker_->mutex);
  if (waker_->wake) waker_->wake();
}

void TieredCache::Impl::run_completions() {
  if (disk_) {
    disk_completions_.clear();
    disk_->take_completions(disk_completions_);
    for (const DiskCompletion& completion : disk_completions_) {
      const auto node = operations_.extract(completion.ticket);
      if (node.empty()) continue;
      const Operation& operation = node.mapped();
      switch (operation.kind) {
        case Operation::Kind::load:
          finish_load(operation, completion.status, completion.payload_checksum);
          break;
        case Operation::Kind::read:
          finish_block_read(completion.ticket, operation, completion.status,
                            completion.payload_checksum, completion.place);
          break;
        case Operation::Kind::import:
          finish_import(completion.ticket, operation, completion.status, 0, completion.disk_bytes);
          break;
        case Operation::Kind::write:
          finish_write(operation, completion);
          break;
        case Operation::Kind::flush:
          drain_flushing_ = false;
          if (completion.status.ok())
            if (auto call = std::exchange(drained_, nullptr)) call();
          break;
        case Operation::Kind::drop_flush:
          finish_drop_flush(completion.ticket, completion.status);
          break;
        case Operation::Kind::eviction_flush:
          finish_eviction_flush(completion.ticket, completion.status);
          break;
        default:
          break;
      }
    }
  }
  if (remote_) run_remote_completions();
  copy_completions_.clear();
  accelerator_.take_completions(copy_completions_);
  for (const CopyCompletion& completion : copy_completions_) {
    const auto node = operations_.extract(completion.ticket);
    if (node.empty()) continue;
    const Operation& operation = node.mapped();
    switch (operation.kind) {
      case Operation::Kind::load:
        finish_load(operation, completion.status, completion.checksum);
        break;
      case Operation::Kind::read:
        finish_block_read(completion.ticket, operation, completion.status, completion.checksum, {});
        break;
      case Operation::Kind::import:
        finish_import(completion.ticket, operation, completion.status, completion.checksum, 0);
        break;
      case Operation::Kind::verify:
        finish_check(operation, completion.status, completion.checksum);
        break;
      case Operation::Kind::demote:
        finish_demotion(operation, completion.status, completion.checksum);
        break;
      case Operation::Kind::move:
        finish_move(operation, completion.status, completion.checksum);
        break;
      case Operation::Kind::transfer:
        finish_copy(completion);
        break;
      default:
        break;
    }
  }
  pump_loads();
  pump_block_reads();
  deliver_finished();
  continue_drops();
  continue_prefix_evictions();
  copy_ahead();
  pump_writes();
  pump_shares();
  tell_lookups();
  // A flush that failed is asked for again by tick(), not at once.
}

void TieredCache::Impl::run_remote_completions() {
  remote_completions_.clear();
  remote_->take_completions(remote_completions_);
  for (const RemoteCompletion& completion : remote_completions_) {
    const auto node = operations_.extract(completion.ticket);
    if (node.empty())
      finish_lookup(completion.ticket, completion);
    else if (node.mapped().kind == Operation::Kind::fetch)
      finish_fetch(node.mapped(), completion);
    else if (node.mapped().kind == Operation::Kind::drop_erase)
      finish_drop_erase(completion.status);
    else if (node.mapped().kind == Operation::Kind::cut_drop_erase)
      finish_cut_drop(completion.ticket, completion.status);
    else
      finish_share(node.mapped(), completion);
  }
  continue_lookups();
}

void TieredCache::Impl::tick() {
  run_deadlines();
  continue_lookups();
  pump_loads();
  continue_drops();
  continue_cut_drops();
  continue_prefix_evictions();
  copy_ahead();
  pump_writes();
  erase_expired_blocks();
  forget_old_remote_blocks();
  pump_shares();
  evict_disk_ahead();
  const std::int64_t now_ns = clock_.monotonic_ns();
  if (now_ns - recency_flushed_ns_ >= recency_flush_ns) {
    flush_recency(max_touches_a_turn);
    if (touched_.empty()) recency_flushed_ns_ = now_ns;
    save_write_budget();
    expire_pins();
  }
  continue_drain();
  deliver_finished();
  tell_lookups();
}

}  // namespace terrace::storage
