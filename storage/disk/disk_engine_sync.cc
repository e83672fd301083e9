// Syncs: what makes the data of written records durable, and the blocks that are acknowledged then.
#include <algorithm>
#include <utility>

#include "storage/disk/disk_engine.h"
#include "storage/disk/disk_tags.h"

namespace terrace::storage {

// The number of the last flush that waits only for cleared records to be durable, 0 for none.
std::uint64_t DiskEngine::flush_that_waits_for_clears() {
  std::uint64_t last = 0;
  for (PendingFlush& flush : flushes_) {
    if (!outstanding_.empty() && flush.number > *outstanding_.begin()) break;
    if (unsynced_clears_.empty()) flush.erases_stay = true;
    if (!flush.erases_stay) last = flush.number;
  }
  return last;
}

void DiskEngine::maybe_start_sync() {
  if (syncing_) return;
  const std::uint64_t last_flush = flush_that_waits_for_clears();
  if (stored_writes_.empty() && last_flush == 0) return;
  SyncGroup& group = syncing_.emplace();
  group.writes = std::exchange(stored_writes_, {});
  group.last_flush = last_flush;
  if (last_flush != 0) group.cleared_files = std::exchange(unsynced_clears_, {});
  if (options_.fsync) {
    std::set<std::uint32_t> files = group.cleared_files;
    for (const StoredWrite& write : group.writes) files.insert(write.entry.extent.file);
    group.files_to_sync.assign(files.begin(), files.end());
  }
  if (group.files_to_sync.empty()) return sync_done();
  start_syncs();
}

void DiskEngine::start_syncs() {
  SyncGroup& group = *syncing_;
  while (group.syncs_started < group.files_to_sync.size() &&
         group.syncs_started - group.syncs_done < max_syncs_in_flight) {
    const std::uint32_t file = group.files_to_sync[group.syncs_started++];
    ring_->submit(
        {RingOperation::Kind::sync, data_->fd(file), 0, {}, make_tag(TagKind::sync, file)});
  }
}

void DiskEngine::sync_arrived(std::uint32_t file, std::int64_t result) {
  SyncGroup& group = *syncing_;
  ++group.syncs_done;
  if (result < 0)
    group.failed_files[file] =
        errno_status(static_cast<int>(-result), "could not sync a data file");
  start_syncs();
  if (group.syncs_done == group.files_to_sync.size()) sync_done();
}

void DiskEngine::fail_unsynced(std::vector<StoredWrite>& writes) {
  std::vector<StoredWrite> durable;
  for (StoredWrite& write : std::exchange(writes, {})) {
    const auto failed = syncing_->failed_files.find(write.entry.extent.file);
    if (failed == syncing_->failed_files.end()) {
      durable.push_back(std::move(write));
      continue;
    }
    rest(write.entry.extent);
    DiskCompletion completion;
    completion.ticket = write.ticket;
    completion.status = failed->second;
    finish_write(write.entry.key, write.number, std::move(completion));
  }
  writes = std::move(durable);
}

// Without them a rebuild, or a start that looks through the write window, might bring back what was
// erased.
void DiskEngine::clears_synced() {
  Status failed;
  for (const std::uint32_t file : syncing_->cleared_files) {
    const auto at = syncing_->failed_files.find(file);
    if (at == syncing_->failed_files.end()) continue;
    unsynced_clears_.insert(file);
    failed = at->second;
  }
  for (auto flush = flushes_.begin();
       flush != flushes_.end() && flush->number <= syncing_->last_flush;) {
    if (failed.ok()) {
      (flush++)->erases_stay = true;
      continue;
    }
    complete({flush->ticket, failed, 0, 0});
    flush = flushes_.erase(flush);
  }
}

void DiskEngine::sync_done() {
  clears_synced();
  // What could not be synced is not there. Nor is what was written to the same file meanwhile: the
  // kernel tells of an error once, and a later sync would succeed without it.
  if (!syncing_->failed_files.empty()) {
    fail_unsynced(syncing_->writes);
    fail_unsynced(stored_writes_);
  }
  const SyncGroup group = std::move(*syncing_);
  syncing_.reset();
  // While the index takes nothing, nobody is told that a block is kept for it.
  const bool index_works = retry_commit_ns_ == 0;
  for (const StoredWrite& write : group.writes) {
    if (!write.in_window || !index_works) {
      synced_writes_.push_back(write);
      continue;
    }
    if (uncommitted_.empty()) uncommitted_due_ns_ = world_.clock->monotonic_ns() + entry_commit_ns;
    uncommitted_.push_back(write);
    acknowledge(write);
  }
}

void DiskEngine::acknowledge(const StoredWrite& write) {
  const IndexEntry& entry = write.entry;
  located_.put(entry.key, {entry.extent, entry.codec});
  DiskCompletion completion;
  completion.ticket = write.ticket;
  completion.payload_checksum = write.payload_checksum;
  completion.disk_bytes = entry.extent.bytes();
  finish_write(entry.key, write.number, std::move(completion));
}

}  // namespace terrace::storage
