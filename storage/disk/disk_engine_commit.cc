// Groups: what one sync of the data files and one batch of the index make durable, and what happens
// to the room of erased blocks afterwards.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "storage/disk/disk_engine.h"
#include "storage/disk/disk_tags.h"

namespace terrace::storage {

void DiskEngine::erase_now(const BlockKey& key, const Extent& extent,
                           std::optional<std::uint64_t> number) {
  freeing_units_ += extent.units;
  erasing_.push_back({key, extent, number});
}

void DiskEngine::maybe_start_group() {
  if (group_) return;
  const std::uint64_t oldest = outstanding_.empty() ? next_number_ : *outstanding_.begin();
  const bool flush_is_due = !flushes_.empty() && flushes_.front().number < oldest;
  const std::int64_t now = world_.clock->monotonic_ns();
  const bool recency_is_due = !pending_recency_.empty() && (now >= recency_due_ns_ || stopping_);
  const bool may_retry = retry_commit_ns_ == 0 || now >= retry_commit_ns_;
  if (stored_writes_.empty() && !flush_is_due &&
      !(may_retry && (!erasing_.empty() || recency_is_due)))
    return;

  Group group;
  while (!flushes_.empty() && flushes_.front().number < oldest) {
    group.flushes.push_back(flushes_.front());
    flushes_.pop_front();
  }
  const std::size_t writes = std::min(stored_writes_.size(), max_commit_blocks);
  group.writes.assign(
      std::make_move_iterator(stored_writes_.begin()),
      std::make_move_iterator(stored_writes_.begin() + static_cast<std::ptrdiff_t>(writes)));
  stored_writes_.erase(stored_writes_.begin(),
                       stored_writes_.begin() + static_cast<std::ptrdiff_t>(writes));
  // A write goes with every erase that came before it: an erase of its key in a later group would
  // delete the entry of the newer record.
  const std::size_t erases =
      writes > 0 ? erasing_.size() : std::min(erasing_.size(), max_commit_blocks);
  group.erases.assign(erasing_.begin(), erasing_.begin() + static_cast<std::ptrdiff_t>(erases));
  erasing_.erase(erasing_.begin(), erasing_.begin() + static_cast<std::ptrdiff_t>(erases));
  take_recency(group);
  if (options_.fsync) {
    std::set<std::uint32_t> files;
    for (const StoredWrite& write : group.writes) files.insert(write.entry.extent.file);
    group.files_to_sync.assign(files.begin(), files.end());
  }
  group_ = std::move(group);
  if (group_->files_to_sync.empty()) return commit_group();
  start_syncs();
}

void DiskEngine::take_recency(Group& group) {
  for (StoredWrite& write : group.writes) {
    std::uint64_t recency = write.recency;
    if (const auto touched = pending_recency_.find(write.entry.key);
        touched != pending_recency_.end()) {
      recency = std::max(recency, touched->second);
      pending_recency_.erase(touched);
    }
    group.recency.emplace_back(write.entry.key, recency);
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

void DiskEngine::start_syncs() {
  Group& group = *group_;
  while (group.syncs_started < group.files_to_sync.size() &&
         group.syncs_started - group.syncs_done < max_syncs_in_flight) {
    const std::uint32_t file = group.files_to_sync[group.syncs_started++];
    ring_->submit(
        {RingOperation::Kind::sync, data_->fd(file), 0, {}, make_tag(TagKind::sync, file)});
  }
}

void DiskEngine::sync_arrived(std::uint32_t file, std::int64_t result) {
  Group& group = *group_;
  ++group.syncs_done;
  if (result < 0)
    group.failed_files[file] =
        errno_status(static_cast<int>(-result), "could not sync a data file");
  start_syncs();
  if (group.syncs_done == group.files_to_sync.size()) commit_group();
}

void DiskEngine::fail_unsynced(std::vector<StoredWrite>& writes, Group& group) {
  std::vector<StoredWrite> durable;
  for (StoredWrite& write : std::exchange(writes, {})) {
    const auto failed = group.failed_files.find(write.entry.extent.file);
    if (failed == group.failed_files.end()) {
      durable.push_back(std::move(write));
      continue;
    }
    std::erase_if(group.recency, [&](const auto& one) { return one.first == write.entry.key; });
    rest(write.entry.extent);
    DiskCompletion completion;
    completion.ticket = write.ticket;
    completion.status = failed->second;
    finish_write(write.entry.key, write.number, std::move(completion));
  }
  writes = std::move(durable);
}

void DiskEngine::commit_group() {
  Group& group = *group_;
  // What could not be synced is not there. Nor is what was written to the same file meanwhile: the
  // kernel tells of an error once, and a later sync would succeed without it.
  if (!group.failed_files.empty()) {
    fail_unsynced(group.writes, group);
    fail_unsynced(stored_writes_, group);
  }

  IndexBatch batch;
  for (const Erasing& erase : group.erases) batch.deletes.push_back(erase.key);
  for (const StoredWrite& write : group.writes) batch.puts.push_back(write.entry);
  batch.recency = group.recency;
  commit_thread_->post([this, batch = std::move(batch)](unsigned) {
    const Status status = batch.empty() ? Status() : index_->commit(batch, options_.fsync);
    post([this, status] { group_committed(status); });
  });
}

void DiskEngine::group_committed(const Status& status) {
  Group group = std::move(*group_);
  group_.reset();
  for (StoredWrite& write : group.writes) {
    const IndexEntry& entry = write.entry;
    DiskCompletion completion;
    completion.ticket = write.ticket;
    completion.status = status;
    if (status.ok()) {
      completion.payload_checksum = write.payload_checksum;
      completion.disk_bytes = entry.extent.bytes();
      located_[entry.key] = {entry.extent, entry.codec,
                             static_cast<std::uint32_t>(entry.payload_bytes),
                             static_cast<std::uint32_t>(entry.stored_bytes)};
    } else {
      allocator_.free(entry.extent);
    }
    finish_write(entry.key, write.number, std::move(completion));
  }
  if (status.ok()) {
    retry_commit_ns_ = 0;
    for (const Erasing& erase : group.erases) {
      if (erase.number) outstanding_.erase(*erase.number);
      to_clear_.push_back(erase.extent);
    }
    for (const PendingFlush& flush : group.flushes) complete({flush.ticket, {}, 0, 0});
    return;
  }
  spdlog::warn("disk: {}", status.message());
  retry_commit_ns_ = world_.clock->monotonic_ns() + recency_commit_ns;
  // An erased block's room must not be used again while the index may still name it.
  erasing_.insert(erasing_.begin(), group.erases.begin(), group.erases.end());
  for (const auto& [key, recency] : group.recency) note_recency(key, recency);
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
    const Extent extent = to_clear_.front();
    to_clear_.pop_front();
    const std::uint64_t clear = next_clear_++;
    clears_.emplace(clear, extent);
    ring_->submit({RingOperation::Kind::write, data_->fd(extent.file), extent.offset_bytes(),
                   std::span(&zero_iovec_, 1), make_tag(TagKind::clear, clear)});
  }
}

void DiskEngine::clear_arrived(std::uint64_t clear, std::int64_t result) {
  const auto at = clears_.find(clear);
  const Extent extent = at->second;
  clears_.erase(at);
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
