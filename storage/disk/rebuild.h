// Finds the records in the data files when the index is lost.
#pragma once

#include <vector>

#include "core/status.h"
#include "storage/disk/data_files.h"
#include "storage/disk/files.h"
#include "storage/disk/index.h"

namespace terrace::storage {

// Reads on past this many unreadable units; more of them mean that the device is not there now.
constexpr unsigned max_unreadable_units = 64;

// Every record whose header verifies, in the order in which they were created, with sequences from
// 1 on; of two of one key the later. Goes from record to record: what lies inside the payload of a
// record that is there is never taken for a header; what is left in free units may be. Payloads are
// not read: that happens, as always, when they are asked for. failed_precondition if a record is of
// another format version, io_error if the files cannot be read.
Result<std::vector<IndexEntry>> find_records(Files& files, const DataFiles& data);

}  // namespace terrace::storage
