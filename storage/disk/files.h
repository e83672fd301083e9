// Files and directories as the disk tier uses them: a seam, so that a test can make any of these
// calls fail. Payload goes through the ring instead (ring.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/status.h"
#include "core/unique_fd.h"

namespace rocksdb {
class Env;
}

namespace terrace::storage {

// Every method may be called from any thread; those on one descriptor or path not at the same time.
// Errors are io_error (no_space for a full file system) with the path or what was tried in the
// message, unless said otherwise. A method that fails leaves behind what it says, else nothing.
class Files {
 public:
  struct DataFile {
    UniqueFd fd;
    bool direct = false;  // O_DIRECT; false where the file system has none (tmpfs)
  };

  virtual ~Files() = default;

  // Creates `path` and its missing parents with mode 0700; ok if it is there.
  virtual Status create_directories(const std::string& path) = 0;
  // Makes names created in or removed from the directory durable.
  virtual Status sync_directory(const std::string& path) = 0;
  // Names of the entries of a directory, in no order, without "." and "..".
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
  // Removes a file, or a directory with what is in it; ok if it is not there. A failure may leave
  // part of a directory behind.
  virtual Status remove(const std::string& path) = 0;
  // What the files in a directory take of the file system at the moment; 0 if nobody knows.
  virtual std::uint64_t allocated_bytes(const std::string& path) = 0;
  // What the index reaches its own files through; null: the system's.
  virtual rocksdb::Env* index_environment() { return nullptr; }

  // The whole file; not_found if it does not exist.
  virtual Result<std::string> read_file(const std::string& path) = 0;
  // Replaces the file: after a crash it has its old contents or these, and these once this
  // returned ok. A failure may leave "<path>.new" behind.
  virtual Status write_file(const std::string& path, std::span<const std::byte> contents) = 0;

  // Opens (and locks against every other opener, in this process too, until the descriptor is
  // closed) a file, and writes `owner` into it. already_exists, with what the other one wrote as
  // its message, if it is locked.
  virtual Result<UniqueFd> lock_file(const std::string& path, const std::string& owner) = 0;

  // Opens a data file for reading and writing, direct if the file system can. With `create` the
  // file must not exist.
  virtual Result<DataFile> open_data_file(const std::string& path, bool create) = 0;
  // Makes the file `bytes` long, all of it really allocated (where the file system can), and its
  // length durable. Takes nothing if the file system says that it has less than that; another
  // failure may leave the file at any length.
  virtual Status preallocate(int fd, std::uint64_t bytes) = 0;
  virtual Result<std::uint64_t> size(int fd) = 0;
  // Makes durable what was written to it.
  virtual Status sync(int fd) = 0;
  // Gives the room of a range back to the file system; the range then reads as zeros.
  virtual Status punch_hole(int fd, std::uint64_t offset, std::uint64_t bytes) = 0;
  // The first offset >= `offset` where something was ever written, nullopt if there is none. May
  // report more than was written, never less.
  virtual Result<std::optional<std::uint64_t>> next_data(int fd, std::uint64_t offset) = 0;
  // Reads from a data file. Offset, length and memory are multiples of 4 KiB. Returns the number of
  // bytes read, less than asked for only at the end of the file.
  virtual Result<std::size_t> read(int fd, std::uint64_t offset, std::span<std::byte> into) = 0;
};

// The files of the operating system.
std::unique_ptr<Files> make_system_files();

}  // namespace terrace::storage
