// The data files of a store: made one after the other as room is needed, never more of them than
// the capacity allows.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/status.h"
#include "storage/disk/extent.h"
#include "storage/disk/files.h"

namespace terrace::storage {

// One thread.
class DataFiles {
 public:
  // `files` must outlive it.
  DataFiles(Files& files, std::string directory, std::uint64_t file_bytes,
            std::uint64_t capacity_bytes);

  // Opens the files that are there.
  Status open();

  // What the files may take together from now on.
  void set_capacity(std::uint64_t capacity_bytes) { capacity_bytes_ = capacity_bytes; }

  bool over_capacity() const { return total_bytes_ > capacity_bytes_; }

  // Makes one more file of at least `bytes` bytes, its name and length durable, and returns its
  // number. no_space if the capacity or the file system does not allow it; nothing is left behind.
  Result<std::uint32_t> grow(std::uint64_t bytes);

  // Gives the room of an extent back to the file system if the files are larger than the capacity
  // (which was larger once, or shrank as the index grew): what is free must not stay allocated
  // then.
  void release(const Extent& extent);

  std::string path(std::uint32_t file) const;
  int fd(std::uint32_t file) const { return files_by_number_.at(file).fd.get(); }
  // Whole units of a file; 0 if there is no such file.
  std::uint32_t units(std::uint32_t file) const;
  // The numbers of the files there are, with their units.
  std::map<std::uint32_t, std::uint32_t> all_units() const;
  // The length of the file now: it may have been cut by somebody else.
  Result<std::uint64_t> current_bytes(std::uint32_t file) const { return files_.size(fd(file)); }
  // Makes durable what was written to a file, by an earlier process too.
  Status sync(std::uint32_t file) const { return files_.sync(fd(file)); }
  // False once a file could not be opened with O_DIRECT.
  bool direct() const { return direct_; }

 private:
  struct Opened {
    UniqueFd fd;
    std::uint32_t units = 0;
  };

  void adopt(std::uint32_t file, Files::DataFile opened, std::uint64_t bytes);

  Files& files_;
  const std::string directory_;
  const std::uint64_t file_bytes_;
  std::uint64_t capacity_bytes_;
  std::map<std::uint32_t, Opened> files_by_number_;
  std::uint64_t total_bytes_ = 0;
  bool direct_ = true;
};

}  // namespace terrace::storage
