#include "client/cli/archive_format.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "core/bytes.h"
#include "core/checksum.h"
#include "core/space_file.h"

namespace terrace::cli {
namespace {

constexpr char header_magic[] = "TERRARC\n", space_magic[] = "TERRASP\n",
               trailer_magic[] = "TERRAEN\n", record_magic[] = "TERRBLK\n";
constexpr std::size_t magic_bytes = 8, at_version = 8, at_length = 12, at_body = 16,
                      at_checksum = archive_unit_bytes - 8;

bool has_magic(std::span<const std::byte> unit, const char* magic) {
  return unit.size() == archive_unit_bytes && std::memcmp(unit.data(), magic, magic_bytes) == 0;
}

std::uint64_t own_checksum(std::span<const std::byte> unit) {
  return load_le<std::uint64_t>(unit.data() + at_checksum);
}

bool unit_verifies(std::span<const std::byte> unit) {
  return own_checksum(unit) == xxh3(unit.first(at_checksum));
}

void begin_unit(const char* magic, std::span<std::byte> unit) {
  std::ranges::fill(unit, std::byte{0});
  std::memcpy(unit.data(), magic, magic_bytes);
  store_le(unit.data() + at_version, archive_version);
}

void end_unit(std::span<std::byte> unit) {
  store_le(unit.data() + at_checksum, xxh3(unit.first(at_checksum)));
}

tl::unexpected<Status> damaged(const char* what) { return error(StatusCode::corruption, what); }

// Magic, checksum and version of a unit.
Status check_archive_unit(std::span<const std::byte> unit, const char* magic, const char* none) {
  if (!has_magic(unit, magic)) return Status(StatusCode::corruption, none);
  if (!unit_verifies(unit))
    return Status(StatusCode::corruption, "the checksum of a part does not match");
  const auto version = load_le<std::uint32_t>(unit.data() + at_version);
  if (version != archive_version)
    return Status(StatusCode::failed_precondition,
                  "archive of format version " + std::to_string(version) +
                      "; this program reads version " + std::to_string(archive_version));
  return {};
}

}  // namespace

void ArchiveSum::add(std::span<const std::byte> first_unit, std::uint64_t part_bytes) {
  switch (archive_part_kind(first_unit)) {
    case ArchivePartKind::space:
      ++spaces;
      break;
    case ArchivePartKind::record:
      ++records;
      break;
    default:
      break;
  }
  bytes += part_bytes;
  std::byte both[16];
  store_le(both, checksum);
  store_le(both + 8, own_checksum(first_unit));
  checksum = xxh3(both);
}

void encode_archive_header(std::int64_t made_unix_ms, std::span<std::byte> unit) {
  begin_unit(header_magic, unit);
  store_le(unit.data() + at_body, made_unix_ms);
  end_unit(unit);
}

Status encode_archive_space(const SpaceDescriptor& space, std::span<std::byte> unit) {
  if (Status valid = space.validate(); !valid.ok()) return valid;
  const std::vector<std::byte> file = encode_space(space);
  begin_unit(space_magic, unit);
  store_le(unit.data() + at_length, static_cast<std::uint32_t>(file.size()));
  std::ranges::copy(file, unit.begin() + at_body);
  end_unit(unit);
  return {};
}

void encode_archive_trailer(const ArchiveSum& sum, std::span<std::byte> unit) {
  begin_unit(trailer_magic, unit);
  store_le(unit.data() + at_body, sum.spaces);
  store_le(unit.data() + at_body + 8, sum.records);
  store_le(unit.data() + at_body + 16, sum.bytes);
  store_le(unit.data() + at_body + 24, sum.checksum);
  end_unit(unit);
}

Result<std::int64_t> decode_archive_header(std::span<const std::byte> unit) {
  if (Status status = check_archive_unit(unit, header_magic, "this is no archive of terrace");
      !status.ok())
    return error(status);
  return load_le<std::int64_t>(unit.data() + at_body);
}

ArchivePartKind archive_part_kind(std::span<const std::byte> unit) {
  if (has_magic(unit, record_magic)) return ArchivePartKind::record;
  if (has_magic(unit, space_magic)) return ArchivePartKind::space;
  if (has_magic(unit, trailer_magic)) return ArchivePartKind::trailer;
  return ArchivePartKind::unknown;
}

Result<SpaceDescriptor> decode_archive_space(std::span<const std::byte> unit) {
  if (Status status = check_archive_unit(unit, space_magic, "no space here"); !status.ok())
    return error(status);
  const auto length = load_le<std::uint32_t>(unit.data() + at_length);
  if (length > at_checksum - at_body) return damaged("a space is longer than its part");
  auto space =
      decode_space(std::string_view(reinterpret_cast<const char*>(unit.data()) + at_body, length));
  if (!space) return error(StatusCode::corruption, space.error().message());
  if (!space->validate().ok()) return damaged("a space that cannot be");
  return space;
}

Result<ArchiveSum> decode_archive_trailer(std::span<const std::byte> unit) {
  if (Status status = check_archive_unit(unit, trailer_magic, "no trailer here"); !status.ok())
    return error(status);
  ArchiveSum sum;
  sum.spaces = load_le<std::uint64_t>(unit.data() + at_body);
  sum.records = load_le<std::uint64_t>(unit.data() + at_body + 8);
  sum.bytes = load_le<std::uint64_t>(unit.data() + at_body + 16);
  sum.checksum = load_le<std::uint64_t>(unit.data() + at_body + 24);
  return sum;
}

Result<RecordHeader> decode_archive_record(std::span<const std::byte> unit) {
  auto header = decode_record_header(unit);
  if (!header) return error(StatusCode::corruption, header.error().message());
  if (header->codec != Codec::raw) return damaged("a record of an archive is not stored as it is");
  return header;
}

}  // namespace terrace::cli
