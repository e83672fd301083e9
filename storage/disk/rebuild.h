// Finds records in the data files: all of them when the index is lost, those that it does not know
// yet after a crash.
#pragma once

#include <vector>

#include "core/status.h"
#include "storage/disk/data_files.h"
#include "storage/disk/files.h"
#include "storage/disk/index.h"

namespace terrace::storage {

// Reads on past this many unreadable units; more of them mean that the device is not there now.
constexpr unsigned max_unreadable_units = 64;

// Every record whose header verifies, in the order in which they were written, with sequences from
// 1 on; of two of one key the later. Goes from record to record: what lies inside the payload of a
// record that is there is never taken for a header; what is left in free units may be. Payloads are
// not read: that happens, as always, when they are asked for. failed_precondition if a record is of
// another format version, io_error if the files cannot be read.
Result<std::vector<IndexEntry>> find_records(Files& files, const DataFiles& data);

struct FoundRecord {
  IndexEntry entry;  // without a sequence
  std::int64_t written_unix_ms = 0;
  std::uint64_t stored_checksum = 0;
};

// Every record that lies in one of the runs and of which header and payload verify, in the order in
// which they were written. Errors as above.
Result<std::vector<FoundRecord>> find_whole_records(Files& files, const DataFiles& data,
                                                    const std::vector<Extent>& runs);

}  // namespace terrace::storage
