// Blocks through the disk tier, beside a bare ring.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "bench/samples.h"
#include "bench/tiers.h"
#include "core/status.h"

namespace terrace::bench {

struct DiskFigures {
  std::size_t block_bytes = 0;
  Samples read_GBps, write_GBps;
  Samples bare_read_GBps;
  Samples bare_write_GBps;           // an fdatasync after every 16 blocks
  Samples bare_write_one_sync_GBps;  // one fdatasync, at the end
  // What the process had the kernel write for each byte of payload: records, what erasing them
  // takes, the index and its log.
  double write_amplification = 0;
  std::int64_t page_cache_growth_bytes = 0;  // of the data files
  std::uint64_t index_cache_bytes = 0;       // of the index, which is read and written buffered
  bool direct = false;
  std::string ring;

  double read_ratio() const { return read_GBps.median() / bare_read_GBps.median(); }
  double write_ratio() const { return write_GBps.median() / bare_write_GBps.median(); }
  double write_one_sync_ratio() const {
    return write_GBps.median() / bare_write_one_sync_GBps.median();
  }
};

// Writes `total_bytes` in blocks, reads them in a random order and erases them, `repetitions`
// times, each beside the bare ring. corruption if what was read is not what was written.
Result<DiskFigures> measure_disk(const std::string& directory, std::size_t block_bytes,
                                 std::size_t total_bytes, std::size_t repetitions,
                                 storage::RingKind ring);

}  // namespace terrace::bench
