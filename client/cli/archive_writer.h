// Writes an archive: beside its place, under "<path>.part", until it is whole.
#pragma once

#include <functional>
#include <string>

#include "client/cli/archive_format.h"
#include "client/cli/archive_reader.h"
#include "core/status.h"
#include "core/unique_fd.h"

namespace terrace::cli {

std::string unfinished_archive_path(const std::string& path);

// Opens a file for an ArchiveReader; io_error, or corruption if it is no archive.
Result<ArchiveReader> open_archive_file(const std::string& path);

class ArchiveWriter {
 public:
  // Begins anew. io_error with the path in the message, as all that follows; failed_precondition
  // while another one writes it.
  static Result<ArchiveWriter> create(const std::string& path, std::int64_t made_unix_ms);
  // Goes on with what an earlier export left: `seen` is told of each part that is there and
  // verifies, and what comes behind is cut off. not_found if there is nothing.
  static Result<ArchiveWriter> resume(const std::string& path,
                                      const std::function<void(const ArchivePart&)>& seen);

  Status add(const SpaceDescriptor& space);
  // `header` is that of the payload as it is: codec, lengths and checksums are filled in here.
  Status add(RecordHeader header, std::span<const std::byte> payload,
             std::uint64_t payload_checksum);
  // Makes it durable and moves it to its place, over what is there.
  Status finish();

  const ArchiveSum& sum() const { return sum_; }

 private:
  ArchiveWriter(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  Status write(std::span<const std::byte> first_unit, std::span<const std::byte> payload);

  std::string path_;
  UniqueFd fd_;
  ArchiveSum sum_;
};

}  // namespace terrace::cli
