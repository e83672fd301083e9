// What a DiskStore is told when it is opened, and its named limits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/bytes.h"
#include "core/clock.h"
#include "core/record.h"
#include "core/status.h"
#include "storage/disk/files.h"
#include "storage/disk/index.h"
#include "storage/disk/ring.h"
#include "storage/disk/worker_threads.h"

namespace terrace::storage {

// I/O that is under way at the same time; what comes on top waits in the order of its arrival.
constexpr unsigned max_reads_in_flight = 32;
constexpr unsigned max_writes_in_flight = 32;
// Of large blocks fewer: a device that has this much before it is busy, and a sync waits for all of
// it.
constexpr std::uint64_t max_write_bytes_in_flight = 32 * mib;
constexpr unsigned max_clears_in_flight = 16;  // headers of erased records being zeroed
constexpr unsigned max_syncs_in_flight = 16;
constexpr unsigned ring_depth =
    max_reads_in_flight + max_writes_in_flight + max_clears_in_flight + max_syncs_in_flight;
// Blocks that one commit of the index takes.
constexpr std::size_t max_commit_blocks = 4096;
// How long erases wait for company, unless a write waits for their room, ...
constexpr std::int64_t erase_commit_ns = 20'000'000;
constexpr std::size_t max_gathered_erases = 256;
// ... and how long an acknowledged block may be found through the write window alone.
constexpr std::int64_t entry_commit_ns = 500'000'000;
// Extents where a write failed rest, so that the next write tries another place; past this many
// the oldest is used again.
constexpr std::size_t max_resting_extents = 64;
// How old recency that is not on the disk yet may be; also how long a commit that failed waits.
// What comes before (the cache tells of uses in batches) and the commit itself are to fit into the
// rest of a second.
constexpr std::int64_t recency_commit_ns = 500'000'000;

// What is kept of the capacity for the index: this part, or more if that is what it takes with a
// quarter and a few logs to grow by until that is noticed.
constexpr std::uint64_t index_part = 64;
constexpr std::uint64_t index_log_part = 1024;  // of the capacity, for one log
constexpr std::uint64_t index_logs_to_grow = 4;

struct DiskOptions {
  std::string directory;  // of this store alone; made if missing, mode 0700
  // Cap on what the directory takes of the file system: data files (headers and padding included)
  // and index.
  std::uint64_t capacity_bytes = 8 * gib;
  std::uint64_t file_bytes = gib;  // of one data file
  Codec codec = Codec::raw;        // of what is written; what is read says its own
  int zstd_level = 1;
  unsigned codec_threads = 2;  // compress and decompress
  RingKind ring = RingKind::automatic;
  // false: nothing is synced, and a crash of the machine (not of the process) may lose or mix up
  // what was acknowledged; what does not verify is still a miss.
  bool fsync = true;
};

// The outside world of a DiskStore: the system's, unless a test gives its own.
struct DiskWorld {
  std::unique_ptr<Files> files;  // null: the system's
  std::function<Result<std::unique_ptr<Ring>>(RingKind, unsigned depth)> make_ring;  // null: same
  std::shared_ptr<const Clock> clock;                                                // null: same
  std::function<std::unique_ptr<Workers>(unsigned count)> make_workers;  // null: threads
};

constexpr std::uint64_t index_log_bytes(const DiskOptions& options) {
  return std::clamp(options.capacity_bytes / index_log_part, min_index_log_bytes,
                    max_index_log_bytes);
}

// What the data files may take beside an index of `index_bytes`.
constexpr std::uint64_t data_capacity_bytes(const DiskOptions& options, std::uint64_t index_bytes) {
  const std::uint64_t index =
      std::max(options.capacity_bytes / index_part,
               index_bytes + index_bytes / 4 + index_logs_to_grow * index_log_bytes(options));
  return options.capacity_bytes - std::min(options.capacity_bytes, index);
}

}  // namespace terrace::storage
