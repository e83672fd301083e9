// What runs behind DiskStore: one thread that owns the files, the ring and the table of blocks.
//
//   submit() --inbox--> gates (one key, one order) --> reads:  ring -> verify -> completion
//                                                  --> writes: verify, encode -> ring -> sync ->
//                                                  commit
//                                                  --> erases -------------------------> commit
//
// A sync makes the data of all records durable that were written before it; a commit is one batch
// of the index, of entries whose data is durable. What comes while one of them runs goes with the
// next. A block in the write window (write_window.h) is acknowledged after the sync, any other
// after the commit. Erased records go: index entry deleted, header on the disk zeroed (so that a
// rebuild never brings it back), extent free.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "storage/codec/payload_codec.h"
#include "storage/disk/disk_operation.h"
#include "storage/disk/disk_options.h"
#include "storage/disk/disk_tier.h"
#include "storage/disk/recovery.h"
#include "storage/disk/ring.h"
#include "storage/disk/worker_threads.h"
#include "storage/disk/write_window.h"

namespace terrace::storage {

struct EraseRequest {
  BlockKey key;
};
struct TouchRequest {
  std::vector<BlockKey> keys;
  std::uint64_t recency = 0;
};
struct FlushRequest {
  Ticket ticket = 0;
};
using DiskRequest = std::variant<SpaceDescriptor, DiskWrite, DiskRead, EraseRequest, TouchRequest,
                                 DiskNote, FlushRequest>;

class DiskEngine {
 public:
  DiskEngine(const DiskOptions& options, DiskWorld world, std::unique_ptr<Ring> ring,
             OpenedStore opened);
  ~DiskEngine();

  // The deciding thread.
  void submit(DiskRequest request);
  void take_completions(std::vector<DiskCompletion>& out);
  void set_notify(std::function<void()> notify);
  DiskUsage usage() const;
  std::string_view ring_name() const { return ring_->name(); }
  bool direct() const { return direct_.load(std::memory_order_relaxed); }

 private:
  // Everything below belongs to the disk thread, but for the members under a mutex and the atomics.

  // disk_engine.cc: the loop, the order of requests, completions.
  struct Waiting {  // a read, write or erase, with its number in the order of arrival
    DiskRequest request;
    std::uint64_t number = 0;
  };
  // Who is at work on a key. It is here only while somebody is or waits.
  struct KeyGate {
    unsigned readers = 0;
    bool writing = false;
    std::deque<Waiting> waiting;
    std::vector<Extent> doomed;  // records that did not verify, until no read is under way
  };
  struct PendingFlush {
    Ticket ticket = 0;
    std::uint64_t number = 0;
    bool erases_stay = false;  // what was erased before is durably gone, for a rebuild too
  };

  bool turn();
  void take_inbox();
  void post(std::function<void()> function);  // any thread: runs it on the disk thread
  void accept(DiskRequest request);
  void enter(const BlockKey& key, Waiting waiting);
  bool try_begin(KeyGate& gate, Waiting& waiting, const BlockKey& key);
  void pump(const BlockKey& key);
  void touch(const TouchRequest& request);
  void note_recency(const BlockKey& key, std::uint64_t recency);
  void handle(const RingCompletion& completion);
  void complete(DiskCompletion completion) { completed_.push_back(std::move(completion)); }
  void deliver();
  void begin_stop();
  bool idle() const;
  std::optional<std::int64_t> wait_ns() const;

  // disk_engine_read.cc
  void start_reads();
  void read_arrived(ReadOperation* operation, std::int64_t result);
  void finish_read(ReadOperation* operation, Result<std::uint64_t> outcome);
  void quarantine(const BlockKey& key, const Extent& extent);

  // disk_engine_write.cc
  Status persist_space(const BlockKey& digest);
  void start_writes();
  Status check_write(const DiskWrite& request);
  void write_prepared(WriteOperation* operation, Status status);
  void place_write(WriteOperation* operation);
  Status allocate(WriteOperation& operation);
  Result<Extent> allocate_outside_window(std::uint32_t units);
  std::uint64_t used_units() const { return allocator_.used_units() - window_.free_units(); }
  void write_arrived(WriteOperation* operation, std::int64_t result);
  void end_write_operation(WriteOperation* operation);
  void finish_write(const BlockKey& key, std::uint64_t number, DiskCompletion completion);
  void retry_waiting_for_room();
  void rest(const Extent& extent);
  bool wake_resting();

  // disk_engine_sync.cc
  struct StoredWrite {  // its data is written
    Ticket ticket = 0;
    std::uint64_t number = 0;
    std::uint64_t payload_checksum = 0;
    std::uint64_t recency = 0;
    bool in_window = false;
    IndexEntry entry;
  };
  struct SyncGroup {
    std::vector<StoredWrite> writes;
    std::vector<std::uint32_t> files_to_sync;
    std::size_t syncs_started = 0, syncs_done = 0;
    std::map<std::uint32_t, Status> failed_files;
    std::set<std::uint32_t> cleared_files;  // synced for the flushes up to this number
    std::uint64_t last_flush = 0;
  };
  void maybe_start_sync();
  std::uint64_t flush_that_waits_for_clears();
  void clears_synced();
  void start_syncs();
  void sync_arrived(std::uint32_t file, std::int64_t result);
  void fail_unsynced(std::vector<StoredWrite>& writes);
  void sync_done();
  void acknowledge(const StoredWrite& write);

  // disk_engine_commit.cc
  struct Erasing {
    BlockKey key;
    Extent extent;
    std::optional<std::uint64_t> number;  // of the request, none for a quarantined record
  };
  struct CommitGroup {
    std::vector<StoredWrite> writes;        // to be acknowledged
    std::vector<StoredWrite> acknowledged;  // already
    std::vector<Erasing> erases;
    std::vector<std::pair<BlockKey, std::uint64_t>> recency;
    std::map<std::string, std::string> notes;
    std::vector<PendingFlush> flushes;
  };
  void erase_now(const BlockKey& key, const Extent& extent, std::optional<std::uint64_t> number);
  bool flush_is_due() const;
  bool commit_is_due() const;
  void maybe_start_commit();
  void take_recency(CommitGroup& group);
  std::optional<std::vector<Extent>> next_window();
  void limit_data(std::uint64_t index_bytes);
  void commit_done(const Status& status);
  void commit_failed(CommitGroup group, const Status& status);
  void fail_flushes(const Status& status);
  void start_clears();
  void clear_arrived(std::uint64_t clear, std::int64_t result);

  const DiskOptions options_;
  const DiskWorld world_;
  UniqueFd lock_;  // goes last, after everything that uses the directory
  std::unique_ptr<DataFiles> data_;
  std::unique_ptr<Index> index_;
  std::unique_ptr<Ring> ring_;

  ExtentAllocator allocator_;
  WriteWindow window_;
  LocatedTable located_;
  std::unordered_map<BlockKey, SpaceDescriptor> spaces_;  // by digest
  std::unordered_set<BlockKey> durable_spaces_;
  std::uint64_t next_sequence_ = 1, next_number_ = 1;

  std::unordered_map<BlockKey, KeyGate> gates_;
  // Numbers of writes that are not durable yet, and of erases whose records are not cleared yet.
  std::set<std::uint64_t> outstanding_;
  std::deque<PendingFlush> flushes_;

  std::deque<DiskRead> ready_reads_;
  std::vector<std::unique_ptr<ReadOperation>> read_operations_;
  std::vector<ReadOperation*> idle_reads_;

  std::deque<Waiting> ready_writes_;
  std::vector<std::unique_ptr<WriteOperation>> write_operations_;
  std::vector<WriteOperation*> idle_writes_;
  std::uint64_t write_bytes_in_flight_ = 0;
  std::deque<WriteOperation*> waiting_for_room_;  // until erases under way have freed theirs
  std::deque<Extent> resting_;
  std::uint64_t resting_units_ = 0;

  std::vector<StoredWrite> stored_writes_;  // written, not synced
  std::optional<SyncGroup> syncing_;
  std::vector<StoredWrite> synced_writes_;  // not acknowledged before the index has them
  std::vector<StoredWrite> uncommitted_;    // acknowledged; the index has them later
  std::int64_t uncommitted_due_ns_ = 0;     // of the oldest of them
  std::vector<Erasing> erasing_;
  std::int64_t erasing_due_ns_ = 0;  // of the oldest of them
  std::unordered_map<BlockKey, std::uint64_t> pending_recency_;
  std::map<std::string, std::string> pending_notes_;
  std::int64_t recency_due_ns_ = 0;  // of the oldest of them
  std::int64_t retry_commit_ns_ = 0;
  std::optional<CommitGroup> committing_;
  std::deque<Erasing> to_clear_;
  std::unordered_map<std::uint64_t, Erasing> clears_;
  std::set<std::uint32_t> unsynced_clears_;  // data files
  std::uint64_t next_clear_ = 0;
  std::uint64_t freeing_units_ = 0;  // of erased blocks whose extents are not free yet
  AlignedBuffer zero_page_;
  iovec zero_iovec_{};

  std::vector<RingCompletion> arrived_;    // of this turn of the loop
  std::vector<DiskCompletion> completed_;  // likewise
  bool stopping_ = false;

  std::mutex inbox_mutex_;
  std::vector<DiskRequest> inbox_;
  std::vector<std::function<void()>> posted_;
  bool stop_requested_ = false;

  mutable std::mutex outbox_mutex_;
  std::vector<DiskCompletion> outbox_;
  std::function<void()> notify_;

  std::uint64_t index_bytes_ = 0;                 // the most that it took
  std::atomic<std::uint64_t> capacity_bytes_{0};  // of the data files
  std::atomic<std::uint64_t> used_bytes_{0}, quarantined_records_{0};
  std::atomic<bool> direct_{true};

  // For each codec thread an instance of each codec, by its number.
  std::vector<std::array<std::unique_ptr<PayloadCodec>, 3>> codecs_;
  PayloadCodec* codec_of(unsigned worker, Codec codec) const {
    return codecs_[worker][static_cast<std::size_t>(codec)].get();
  }
  // Before the disk thread in order of destruction: it posts to them, they to its inbox.
  std::unique_ptr<Workers> codec_threads_, commit_thread_, thread_;
};

}  // namespace terrace::storage
