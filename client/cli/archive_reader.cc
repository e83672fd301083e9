#include "client/cli/archive_reader.h"

#include <algorithm>

#include "core/checksum.h"

namespace terrace::cli {

Result<ArchiveReader> ArchiveReader::open(ReadAt read_at) {
  ArchiveReader reader(std::move(read_at));
  const auto whole = reader.read_unit();
  if (!whole) return error(whole.error());
  if (!*whole) return error(StatusCode::corruption, "this is no archive of terrace");
  if (const auto made = decode_archive_header(reader.unit_); !made) return error(made.error());
  reader.note_part(archive_unit_bytes);
  return reader;
}

Result<bool> ArchiveReader::read_unit() {
  const auto got = read_at_(at_, unit_);
  if (!got) return error(got.error());
  // What is left of a unit at the end of a file that was cut short.
  if (*got > 0 && *got < unit_.size()) note_damage();
  return *got == unit_.size();
}

void ArchiveReader::note_damage() {
  if (!in_damage_) ++damages_;
  in_damage_ = true;
}

void ArchiveReader::note_part(std::uint64_t bytes) {
  if (damages_ == 0 && !trailer_found_) sound_.add(unit_, bytes);
  at_ += bytes;
  in_damage_ = false;
}

Result<std::optional<ArchivePart>> ArchiveReader::next() {
  for (;;) {
    const auto whole = read_unit();
    if (!whole) return error(whole.error());
    if (!*whole) return std::nullopt;
    complete_ = false;  // something follows what seemed to be the end
    switch (archive_part_kind(unit_)) {
      case ArchivePartKind::space:
        if (auto space = decode_archive_space(unit_)) {
          note_part(archive_unit_bytes);
          return ArchivePart(std::move(*space));
        }
        break;
      case ArchivePartKind::record: {
        auto record = read_record();
        if (!record) return error(record.error());
        if (*record) return ArchivePart(std::move(**record));
        continue;
      }
      case ArchivePartKind::trailer:
        if (const auto sum = decode_archive_trailer(unit_)) {
          complete_ = !trailer_found_ && damages_ == 0 && *sum == sound_;
          // Where something was damaged before, it cannot agree.
          if (!complete_ && damages_ == 0) note_damage();
          trailer_found_ = true;
          at_ += archive_unit_bytes;
          continue;
        }
        break;
      case ArchivePartKind::unknown:
        break;
    }
    note_damage();
    at_ += archive_unit_bytes;
  }
}

// Nothing, and the damage is noted, if it does not verify.
Result<std::optional<ArchiveRecord>> ArchiveReader::read_record() {
  auto header = decode_archive_record(unit_);
  if (!header) {
    note_damage();
    at_ += archive_unit_bytes;
    return std::nullopt;
  }
  const std::uint64_t bytes = archive_record_bytes(header->payload_bytes);
  std::vector<std::byte> payload(bytes - archive_unit_bytes);
  const auto got = read_at_(at_ + archive_unit_bytes, payload);
  if (!got) return error(got.error());
  const auto padding = std::span(payload).subspan(header->payload_bytes);
  const bool good =
      *got == payload.size() &&
      payload_checksum(std::span(payload).first(header->payload_bytes)) ==
          header->payload_checksum &&
      std::ranges::all_of(padding, [](std::byte byte) { return byte == std::byte{0}; });
  if (!good) {
    // The header says how long it is. So one wrong bit costs one record, and a file of headers that
    // claim much costs no more than its length.
    ++damages_;
    in_damage_ = false;
    at_ += bytes;
    return std::nullopt;
  }
  payload.resize(header->payload_bytes);
  note_part(bytes);
  return ArchiveRecord{std::move(*header), std::move(payload)};
}

}  // namespace terrace::cli
