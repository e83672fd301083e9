#include <algorithm>

#include "storage/cache/impl.h"

namespace terrace::storage {

void TieredCache::Impl::drain(std::function<void()> done) {
  draining_ = true;
  drained_ = std::move(done);
  // Nothing is sealed from now on.
  end_all_waits();
  if (!disk_) {
    if (auto call = std::exchange(drained_, nullptr)) call();
    return;
  }
  // The most valuable first, since the caller may not wait for all. This reads every block, once.
  std::vector<Block*> dirty;
  catalog_.index().visit_from(BlockKey{}, [&](Block& block) {
    if (block.write_queued) {
      block.write_queued = false;
      refresh(block);
    }
    if (block.disk == DiskCopy::none && (block.in_device() || block.in_host()))
      dirty.push_back(&block);
    return true;
  });
  write_queue_.clear();
  queued_write_bytes_ = 0;
  std::ranges::sort(dirty, [](const Block* a, const Block* b) {
    return a->recency != b->recency ? a->recency > b->recency : a->depth < b->depth;
  });
  for (Block* block : dirty) queue_write(*block);
  pump_writes();
  continue_drain();
}

std::size_t TieredCache::Impl::drain_blocks_left() const {
  return write_queue_.size() + writes_in_flight_;
}

void TieredCache::Impl::continue_drain() {
  if (!drained_ || drain_flushing_ || drain_blocks_left() > 0) return;
  flush_recency(touched_.size());
  save_write_budget();
  drain_flushing_ = true;
  disk_->flush(new_ticket({}));
}

}  // namespace terrace::storage
