// Looks at a store that no daemon has open: reads every record that its index names and says which
// do not verify.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/block_key.h"
#include "core/status.h"
#include "storage/disk/disk_options.h"
#include "storage/disk/files.h"

namespace terrace::storage {

struct BadRecord {
  BlockKey space, key, parent;
  std::vector<Token> tokens;
  std::uint64_t payload_bytes = 0;
  std::string place;
  std::string reason;
};

struct StoreCheck {
  std::uint64_t spaces = 0;
  std::uint64_t records = 0, bytes = 0;  // read; bytes of them on the disk
  std::string index_problem;             // why the index is of no use; "" if it is
  std::vector<BadRecord> bad;

  bool sound() const { return bad.empty() && index_problem.empty(); }
};

// So much of what is wrong is kept.
constexpr std::size_t max_bad_records = 1'000'000;

// Reads everything and changes nothing but the lock file. `progress` is told how many of how many
// records are read; false ends the look. already_exists if a daemon has the directory; not_found if
// it is no store; failed_precondition for another format version; io_error; cancelled looks give
// what they have.
Result<StoreCheck> check_store(const std::string& directory, Files& files,
                               const std::function<bool(std::uint64_t, std::uint64_t)>& progress);

// Opens the store, which rebuilds an index that is of no use, and erases the records that `check`
// found bad, durably. How many are gone. Errors as of DiskStore::open().
Result<std::uint64_t> repair_store(const DiskOptions& options, const StoreCheck& check);

}  // namespace terrace::storage
