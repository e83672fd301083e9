// An archive: prefixes of blocks in one file that can be carried to another daemon. A sequence of
// parts, each of whole units of 4 KiB and each verifying alone; docs/archive_format.md draws them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/record.h"
#include "core/space.h"
#include "core/status.h"

namespace terrace::cli {

constexpr std::size_t archive_unit_bytes = record_header_bytes;
constexpr std::uint32_t archive_version = 1;

using ArchiveUnit = std::array<std::byte, archive_unit_bytes>;

// What all parts before the trailer add up to.
struct ArchiveSum {
  std::uint64_t spaces = 0, records = 0, bytes = 0;
  std::uint64_t checksum = 0;

  bool operator==(const ArchiveSum&) const = default;
  // Takes in a part by its first unit, whose own checksum stands for all of it.
  void add(std::span<const std::byte> first_unit, std::uint64_t part_bytes);
};

void encode_archive_header(std::int64_t made_unix_ms, std::span<std::byte> unit);
// invalid_argument for a descriptor that does not validate.
Status encode_archive_space(const SpaceDescriptor& space, std::span<std::byte> unit);
void encode_archive_trailer(const ArchiveSum& sum, std::span<std::byte> unit);

// When the archive was made. corruption for what is no archive, failed_precondition for one of
// another version.
Result<std::int64_t> decode_archive_header(std::span<const std::byte> unit);

// What the first unit of a part says it is.
enum class ArchivePartKind { space, record, trailer, unknown };
ArchivePartKind archive_part_kind(std::span<const std::byte> unit);

// corruption for what does not verify.
Result<SpaceDescriptor> decode_archive_space(std::span<const std::byte> unit);
Result<ArchiveSum> decode_archive_trailer(std::span<const std::byte> unit);
// A record's header; its payload is stored as it is, from the next unit on.
Result<RecordHeader> decode_archive_record(std::span<const std::byte> unit);

// A record with its padding.
inline std::uint64_t archive_record_bytes(std::uint64_t payload_bytes) {
  return archive_unit_bytes +
         (payload_bytes + archive_unit_bytes - 1) / archive_unit_bytes * archive_unit_bytes;
}

}  // namespace terrace::cli
