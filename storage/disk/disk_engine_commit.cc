// Commits: batches of the index, and what happens to the room of erased blocks afterwards.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "storage/disk/disk_engine.h"
#include "storage/disk/disk_tags.h"

namespace terrace::storage {

namespace {

// Moves the first `count` elements out.
template <typename T>
std::vector<T> take_front(std::vector<T>& from, std::size_t count) {
  const auto end = from.begin() + static_cast<std::ptrdiff_t>(std::min(count, from.size()));
  std::vector<T> taken(std::make_move_iterator(from.begin()), std::make_move_iterator(end));
  from.erase(from.begin(), end);
  return taken;
}

}  // namespace

void DiskEngine::erase_now(const BlockKey& key, const Extent& extent,
                           std::optional<std::uint64_t> number) {
  freeing_units_ += extent.units;
  if (erasing_.empty()) erasing_due_ns_ = world_.clock->monotonic_ns() + erase_commit_ns;
  erasing_.push_back({key, extent, number});
}

bool DiskEngine::flush_is_due() const {
  if (flushes_.empty() || !flushes_.front().erases_stay) return false;
  return outstanding_.empty() || flushes_.front().number < *outstanding_.begin();
}

bool DiskEngine::commit_is_due() const {
  if (!synced_writes_.empty() || flush_is_due()) return true;
  const std::int64_t now = world_.clock->monotonic_ns();
  if (now < retry_commit_ns_) return false;
  if (stopping_)
    return !erasing_.empty() || !uncommitted_.empty() || !pending_recency_.empty() ||
           !pending_notes_.empty() ||
           (window_.named() && idle_writes_.size() == write_operations_.size() && !syncing_ &&
            stored_writes_.empty());
  // A flush waits for the erases before it.
  if (!erasing_.empty() && (now >= erasing_due_ns_ || erasing_.size() >= max_gathered_erases ||
                            !waiting_for_room_.empty() || !flushes_.empty()))
    return true;
  if (!uncommitted_.empty() &&
      (now >= uncommitted_due_ns_ || uncommitted_.size() >= max_commit_blocks ||
       window_.is_low(allocator_)))
    return true;
  return !pending_notes_.empty() || (!pending_recency_.empty() && now >= recency_due_ns_);
}

void DiskEngine::maybe_start_commit() {
  if (committing_ || !commit_is_due()) return;
  CommitGroup& group = committing_.emplace();
  while (flush_is_due()) {
    group.flushes.push_back(flushes_.front());
    flushes_.pop_front();
  }
  // A flush that is due takes all that was acknowledged before it.
  group.acknowledged = group.flushes.empty() ? take_front(uncommitted_, max_commit_blocks)
                                             : std::exchange(uncommitted_, {});
  group.writes = take_front(synced_writes_, max_commit_blocks);
  // A put goes with every erase that came before it: an erase of its key in a later batch would
  // delete the entry of the newer record.
  const bool puts = !group.writes.empty() || !group.acknowledged.empty();
  group.erases = take_front(erasing_, puts ? erasing_.size() : max_commit_blocks);
  // Nor may the put of an erased record come with its erase or after it.
  std::set<Extent> erased;
  for (const Erasing& erase : group.erases) erased.insert(erase.extent);
  const auto is_erased = [&](const StoredWrite& write) {
    return erased.contains(write.entry.extent);
  };
  std::erase_if(group.acknowledged, is_erased);
  std::erase_if(uncommitted_, is_erased);
  take_recency(group);
  group.notes = std::exchange(pending_notes_, {});

  IndexBatch batch;
  for (const Erasing& erase : group.erases) batch.deletes.push_back(erase.key);
  for (const StoredWrite& write : group.acknowledged) batch.puts.push_back(write.entry);
  for (const StoredWrite& write : group.writes) batch.puts.push_back(write.entry);
  batch.recency = group.recency;
  batch.notes.assign(group.notes.begin(), group.notes.end());
  batch.window = next_window();
  commit_thread_->post([this, batch = std::move(batch)](unsigned) {
    const Status status = batch.empty() ? Status() : index_->commit(batch, options_.fsync);
    const std::uint64_t index_bytes = index_->allocated_bytes();
    post([this, status, index_bytes] {
      limit_data(index_bytes);
      commit_done(status);
    });
  });
}

std::optional<std::vector<Extent>> DiskEngine::next_window() {
  if (!options_.fsync) return std::nullopt;
  if (stopping_ && idle_writes_.size() == write_operations_.size() && !syncing_ &&
      stored_writes_.empty() && uncommitted_.empty())
    return window_.propose_none(allocator_);  // the next start has nothing to look for
  if (!window_.wants_more(allocator_)) return std::nullopt;
  std::vector<Extent> in_use;
  const auto add = [&in_use](const std::vector<StoredWrite>& writes) {
    for (const StoredWrite& write : writes)
      if (write.in_window) in_use.push_back(write.entry.extent);
  };
  add(stored_writes_);
  add(synced_writes_);
  add(uncommitted_);
  if (syncing_) add(syncing_->writes);
  for (const auto& operation : write_operations_)
    if (operation->in_window) in_use.push_back(operation->extent);
  return window_.propose(allocator_, std::move(in_use));
}

void DiskEngine::take_recency(CommitGroup& group) {
  for (const auto* writes : {&group.acknowledged, &group.writes}) {
    for (const StoredWrite& write : *writes) {
      std::uint64_t recency = write.recency;
      if (const auto touched = pending_recency_.find(write.entry.key);
          touched != pending_recency_.end()) {
        recency = std::max(recency, touched->second);
        pending_recency_.erase(touched);
      }
      group.recency.emplace_back(write.entry.key, recency);
    }
  }
  std::unordered_map<BlockKey, std::uint64_t> later;
  for (const auto& [key, recency] : pending_recency_) {
    if (located_.contains(key))
      group.recency.emplace_back(key, recency);
    else if (gates_.contains(key) && !stopping_)
      later.emplace(key, recency);  // its write is still under way; at a stop it may be dropped
  }
  pending_recency_ = std::move(later);
  if (!pending_recency_.empty()) recency_due_ns_ = world_.clock->monotonic_ns() + recency_commit_ns;
}

// The index grows beside the data within one capacity.
void DiskEngine::limit_data(std::uint64_t index_bytes) {
  index_bytes_ = std::max(index_bytes_, index_bytes);  // what it gives up it takes again
  const std::uint64_t capacity_bytes = data_capacity_bytes(options_, index_bytes_);
  if (capacity_bytes == capacity_bytes_) return;
  const bool fitted = !data_->over_capacity();
  capacity_bytes_ = capacity_bytes;
  data_->set_capacity(capacity_bytes);
  if (!fitted || !data_->over_capacity()) return;
  // From now on nothing that is free may stay allocated.
  for (const Extent& extent : allocator_.free_extents()) data_->release(extent);
  for (const Extent& extent : window_.free_extents()) data_->release(extent);
}

void DiskEngine::commit_done(const Status& status) {
  CommitGroup group = std::move(*committing_);
  committing_.reset();
  if (!status.ok()) return commit_failed(std::move(group), status);
  window_.confirm();
  retry_commit_ns_ = 0;
  for (const StoredWrite& write : group.writes) acknowledge(write);
  to_clear_.insert(to_clear_.end(), group.erases.begin(), group.erases.end());
  for (const PendingFlush& flush : group.flushes) complete({flush.ticket, {}, 0, 0});
}

void DiskEngine::commit_failed(CommitGroup group, const Status& status) {
  spdlog::warn("disk: {}", status.message());
  window_.reject(allocator_);
  retry_commit_ns_ = world_.clock->monotonic_ns() + recency_commit_ns;
  for (const StoredWrite& write : group.writes) {
    allocator_.free(write.entry.extent);
    DiskCompletion completion;
    completion.ticket = write.ticket;
    completion.status = status;
    finish_write(write.entry.key, write.number, std::move(completion));
  }
  // These are durable all the same: the window has them until a commit succeeds.
  uncommitted_.insert(uncommitted_.begin(), std::make_move_iterator(group.acknowledged.begin()),
                      std::make_move_iterator(group.acknowledged.end()));
  // An erased block's room must not be used again while the index may still name it.
  erasing_.insert(erasing_.begin(), group.erases.begin(), group.erases.end());
  for (const auto& [key, recency] : group.recency) note_recency(key, recency);
  pending_notes_.merge(group.notes);  // keeps what was told since
  for (const PendingFlush& flush : group.flushes) complete({flush.ticket, status, 0, 0});
  fail_flushes(status);
  // Nobody waits on an index that does not work.
  std::deque<WriteOperation*> waiting;
  waiting.swap(waiting_for_room_);
  for (WriteOperation* operation : waiting)
    write_prepared(operation,
                   Status(StatusCode::no_space, "no room, and none can be freed at the moment"));
}

void DiskEngine::fail_flushes(const Status& status) {
  for (const PendingFlush& flush : flushes_) complete({flush.ticket, status, 0, 0});
  flushes_.clear();
}

void DiskEngine::start_clears() {
  while (!to_clear_.empty() && clears_.size() < max_clears_in_flight) {
    const Extent extent = to_clear_.front().extent;
    const std::uint64_t clear = next_clear_++;
    clears_.emplace(clear, std::move(to_clear_.front()));
    to_clear_.pop_front();
    ring_->submit({RingOperation::Kind::write, data_->fd(extent.file), extent.offset_bytes(),
                   std::span(&zero_iovec_, 1), make_tag(TagKind::clear, clear)});
  }
}

void DiskEngine::clear_arrived(std::uint64_t clear, std::int64_t result) {
  const auto at = clears_.find(clear);
  const Extent extent = at->second.extent;
  if (at->second.number) outstanding_.erase(*at->second.number);
  clears_.erase(at);
  if (result >= 0 && options_.fsync) unsynced_clears_.insert(extent.file);
  // Only a rebuild of a lost index could see the old record again, and it still is the block that
  // it says it is.
  if (result < 0)
    spdlog::warn("disk: {}",
                 errno_status(static_cast<int>(-result), "could not clear a record").message());
  data_->release(extent);
  allocator_.free(extent);
  freeing_units_ -= extent.units;
  retry_waiting_for_room();
}

}  // namespace terrace::storage
