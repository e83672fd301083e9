// Whether the directories of the disk tier can hold it, and how fast they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "client/cli/doctor/finding.h"
#include "core/status.h"

namespace terrace::cli::doctor {

// What the speed of a directory is measured with: written, made durable, read back past the page
// cache where the file system allows that, and removed.
constexpr std::uint64_t speed_test_bytes = 64ull << 20;

struct DiskSpeed {
  double write_bytes_per_s = 0, read_bytes_per_s = 0;
  bool direct = false;  // false: the reading may have come out of the page cache
};

struct DirectoryFacts {
  std::string path;
  std::string exists_as;  // itself, or the nearest directory above it that is there
  bool is_directory = false;
  bool writable = false;    // by who asks; a daemon of another user may see it otherwise
  std::string file_system;  // "ext4", "tmpfs"; "0x..." for unknown ones
  std::uint64_t free_bytes = 0;
  std::uint64_t used_by_terrace_bytes = 0;  // what lies in it already
  std::uint64_t capacity_bytes = 0;         // the part of the tier that is to lie here
  std::optional<DiskSpeed> speed;
  Status speed_failure;
};

// Reads the directory and, if asked to, measures it, in a file of its own that is removed.
DirectoryFacts gather_directory(const std::string& path, std::uint64_t capacity_bytes,
                                bool measure_speed);
Findings check_directory(const DirectoryFacts& facts);

// Writes and reads `bytes` in a new file of `directory`. io_error, no_space.
Result<DiskSpeed> measure_disk_speed(const std::string& directory, std::uint64_t bytes);

}  // namespace terrace::cli::doctor
