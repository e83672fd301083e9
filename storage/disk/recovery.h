// Opens a store's directory and finds what is in it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/status.h"
#include "core/unique_fd.h"
#include "storage/disk/data_files.h"
#include "storage/disk/disk_options.h"
#include "storage/disk/disk_tier.h"
#include "storage/disk/extent_allocator.h"
#include "storage/disk/index.h"
#include "storage/disk/located_table.h"

namespace terrace::storage {

constexpr std::uint32_t disk_format_version = 2;

struct OpenedStore {
  UniqueFd lock;  // held as long as the store is open
  std::unique_ptr<DataFiles> data;
  std::unique_ptr<Index> index;
  ExtentAllocator allocator;
  LocatedTable located;
  std::vector<RecoveredBlock> blocks;
  std::vector<SpaceDescriptor> spaces;
  std::vector<DiskNote> notes;
  std::uint64_t next_sequence = 1;
};

// Locks a store's directory; already_exists, naming it and the process that has it, if another has.
Result<UniqueFd> lock_store(const std::string& directory, Files& files);
// True if the directory is of this format version, false if it says nothing of one;
// failed_precondition for another version.
Result<bool> check_store_format(const std::string& directory, Files& files);
// The spaces that were ever written there; what does not verify is left out, with a warning.
Result<std::vector<SpaceDescriptor>> read_store_spaces(const std::string& directory, Files& files);

std::string spaces_directory(const std::string& directory);

// Locks the directory (already_exists, naming it and the process that has it, if another store is
// open there), checks format versions (failed_precondition for another one), reads spaces and
// index, adds what the index does not know yet, rebuilds it from the records if it is lost or
// corrupt, and drops entries that overlap a newer one, lie outside of the data files or belong to a
// space that is not known. io_error if the system does not let it look: nothing is thrown away
// then.
Result<OpenedStore> open_store(const DiskOptions& options, Files& files);

}  // namespace terrace::storage
