// Which block lies where, durably: a wrapper of RocksDB. Everything in it can be rebuilt from the
// records, except recency and notes. Keys and values are drawn in docs/disk_format.md.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/block_key.h"
#include "core/record.h"
#include "core/status.h"
#include "storage/disk/extent.h"
#include "storage/disk/files.h"

namespace terrace::storage {

constexpr std::uint32_t index_version = 3;

constexpr std::uint64_t min_index_log_bytes = 64ull << 10, max_index_log_bytes = 16ull << 20;

struct IndexEntry {
  BlockKey key, space, parent;
  std::vector<Token> tokens;
  Extent extent;
  Codec codec = Codec::raw;
  std::uint64_t payload_bytes = 0, stored_bytes = 0;
  std::uint64_t sequence = 0;        // grows with every entry ever written: the newer of two wins
  std::int64_t created_unix_ms = 0;  // as the record says
};

// Deletes take effect first, then puts, then recency and notes (an empty value removes one).
struct IndexBatch {
  std::vector<BlockKey> deletes;
  std::vector<IndexEntry> puts;
  std::vector<std::pair<BlockKey, std::uint64_t>> recency;
  std::optional<std::vector<Extent>> window;  // takes the place of the one before
  std::vector<std::pair<std::string, std::string>> notes;

  bool empty() const {
    return deletes.empty() && puts.empty() && recency.empty() && !window && notes.empty();
  }
};

// One thread at a time, but for scan().
class Index {
 public:
  enum class Mode { create, open, look };

  // create: `path` is not there yet; it is incomplete (and open() calls it corrupt) until
  // mark_complete().
  // open: not_found if there is no index; corruption if it is there and cannot be used: rebuild it;
  // failed_precondition for another version; io_error for what may pass, such as no free file
  // descriptors: nothing may be thrown away then.
  // look: as open, and changes nothing; only scan() and what follows it may be called.
  // `log_bytes` bounds the log that a start after a crash replays, and with it what the index takes
  // besides its entries: a few times as much. `files` must outlive it.
  static Result<std::unique_ptr<Index>> open(Files& files, const std::string& path, Mode mode,
                                             std::uint64_t log_bytes = max_index_log_bytes);
  ~Index();

  Status mark_complete();

  // All of the batch or nothing, durable when it returns (unless !sync). After a failure nothing of
  // it is in effect: the next commit that succeeds sees to it that the entries that were to be put
  // are deleted, should they have reached the disk after all.
  Status commit(const IndexBatch& batch, bool sync);

  // About as many as there are: for making room.
  std::uint64_t estimated_entries() const;

  // Every entry of one of `parts` equal ranges of keys with its recency (0 if none was ever told),
  // in the order of the keys; the entry is valid during the visit. corruption if one cannot be
  // read. Any threads, while nothing is committed.
  using Visit = std::function<void(const IndexEntry&, std::uint64_t recency)>;
  Status scan(unsigned part, unsigned parts, const Visit& visit) const;

  // The window as last committed: where records may lie that have no entry yet (write_window.h).
  Result<std::vector<Extent>> window() const;
  // Every note as {name, value}, in the order of their names. corruption if they cannot be read.
  Result<std::vector<std::pair<std::string, std::string>>> notes() const;

  // What its files take of the file system at the moment.
  std::uint64_t allocated_bytes() const;

  // Writes the memtable out, so that the next start has no log to replay.
  Status flush();

 private:
  class Impl;
  explicit Index(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace terrace::storage
