// Reads an archive part by part and believes nothing that does not verify.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "client/cli/archive_format.h"
#include "core/status.h"

namespace terrace::cli {

struct ArchiveRecord {
  RecordHeader header;
  std::vector<std::byte> payload;  // verified
};

using ArchivePart = std::variant<SpaceDescriptor, ArchiveRecord>;

class ArchiveReader {
 public:
  // Fills `into` from `offset` on: how many bytes there were, fewer only at the end.
  using ReadAt =
      std::function<Result<std::size_t>(std::uint64_t offset, std::span<std::byte> into)>;

  // Reads the header. corruption for what is no archive, failed_precondition for one of another
  // version, what `read_at` says otherwise.
  static Result<ArchiveReader> open(ReadAt read_at);

  // The next space or record that verifies; what does not is passed over. Nothing at the end. Fails
  // only as `read_at` does.
  Result<std::optional<ArchivePart>> next();

  // At the end: everything that was written is there, and as it was written.
  bool complete() const { return complete_; }
  // Runs of units that are no part of any kind, and records whose payload does not verify.
  std::uint64_t damages() const { return damages_; }
  bool trailer_found() const { return trailer_found_; }
  // All parts up to the first damage or the trailer: where an unfinished archive can be gone on
  // with.
  const ArchiveSum& sound() const { return sound_; }

 private:
  explicit ArchiveReader(ReadAt read_at) : read_at_(std::move(read_at)) {}
  // Whether a whole unit is there.
  Result<bool> read_unit();
  void note_damage();
  void note_part(std::uint64_t bytes);
  Result<std::optional<ArchiveRecord>> read_record();

  ReadAt read_at_;
  ArchiveUnit unit_{};
  std::uint64_t at_ = 0;
  ArchiveSum sound_;
  std::uint64_t damages_ = 0;
  bool in_damage_ = false;  // the unit before was none that is known
  bool trailer_found_ = false, complete_ = false;
};

}  // namespace terrace::cli
