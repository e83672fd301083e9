#include "storage/disk/rebuild.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <unordered_map>

#include "core/bytes.h"
#include "core/checksum.h"
#include "core/record.h"
#include "storage/disk/aligned_buffer.h"

namespace terrace::storage {

namespace {

// Small records are read in large pieces; from a large one we jump to the next header.
constexpr std::uint64_t piece_bytes = mib;
constexpr std::uint64_t jump_over_bytes = 256 * kib;

class Scanner {
 public:
  Scanner(Files& files, int fd) : files_(files), fd_(fd) { buffer_.ensure(piece_bytes); }

  // The unit at `offset`, read in a piece of `ahead` bytes if it is not there yet. An empty span at
  // the end of the file; not_found if just this unit cannot be read.
  Result<std::span<const std::byte>> unit(std::uint64_t offset, std::uint64_t ahead) {
    if (offset < start_ || offset + extent_unit_bytes > start_ + length_) {
      start_ = offset;
      length_ = 0;
      auto got = files_.read(fd_, offset, buffer_.span().first(ahead));
      // One bad sector must not hide its neighbours.
      if (!got) got = files_.read(fd_, offset, buffer_.span().first(extent_unit_bytes));
      if (!got) {
        if (++unreadable_ > max_unreadable_units) return error(got.error());
        return error(StatusCode::not_found, got.error().message());
      }
      length_ = *got / extent_unit_bytes * extent_unit_bytes;
      if (length_ == 0) return std::span<const std::byte>();
    }
    return std::span<const std::byte>(buffer_.data() + (offset - start_), extent_unit_bytes);
  }

  unsigned unreadable() const { return unreadable_; }

 private:
  Files& files_;
  const int fd_;
  AlignedBuffer buffer_;
  std::uint64_t start_ = 0, length_ = 0;
  unsigned unreadable_ = 0;
};

// Whether the payload on the disk is what the header says of it.
bool payload_verifies(Files& files, int fd, const FoundRecord& found) {
  AlignedBuffer buffer;
  buffer.ensure(found.entry.stored_bytes);
  const std::uint64_t bytes = round_up(found.entry.stored_bytes, extent_unit_bytes);
  const auto got = files.read(fd, found.entry.extent.offset_bytes() + record_header_bytes,
                              buffer.span().first(bytes));
  return got && *got == bytes &&
         payload_checksum(buffer.span().first(found.entry.stored_bytes)) == found.stored_checksum;
}

// With `whole` a record counts only if its payload verifies, and else is looked through for others.
Status find_in_run(Files& files, int fd, const Extent& run, bool whole,
                   std::vector<FoundRecord>& found) {
  const std::uint32_t file = run.file;
  Scanner scanner(files, fd);
  std::uint64_t last_record_bytes = 0;
  const std::uint64_t end = run.end() * extent_unit_bytes;
  std::uint64_t offset = run.offset_bytes();
  bool in_data = false;  // whether offset is known to lie in what was written
  while (offset < end) {
    if (!in_data) {
      const auto data = files.next_data(fd, offset);
      if (!data) return data.error();
      if (!*data) break;
      offset = std::max(offset, **data / extent_unit_bytes * extent_unit_bytes);
      in_data = true;
      continue;
    }
    const auto page = scanner.unit(
        offset, last_record_bytes >= jump_over_bytes ? extent_unit_bytes : piece_bytes);
    if (!page) {
      if (page.error().code() != StatusCode::not_found) return page.error();
      spdlog::warn("disk: file {} at {}: {}", file, offset, page.error().message());
      offset += extent_unit_bytes;
      continue;
    }
    if (page->empty()) break;
    const auto header = decode_record_header(*page);
    if (!header) {
      if (header.error().code() != StatusCode::corruption) return header.error();
      offset += extent_unit_bytes;
      // Where nothing is found for long there is probably a hole.
      if (offset % piece_bytes == 0) in_data = false;
      continue;
    }
    const std::uint64_t bytes =
        record_header_bytes + round_up(header->stored_bytes, extent_unit_bytes);
    if (offset + bytes <= end) {
      FoundRecord record;
      IndexEntry& entry = record.entry;
      entry.key = header->key;
      entry.space = header->space;
      entry.parent = header->parent;
      entry.tokens = header->tokens;
      entry.extent = {file, static_cast<std::uint32_t>(offset / extent_unit_bytes),
                      static_cast<std::uint32_t>(bytes / extent_unit_bytes)};
      entry.codec = header->codec;
      entry.payload_bytes = header->payload_bytes;
      entry.stored_bytes = header->stored_bytes;
      entry.created_unix_ms = header->created_unix_ms;
      record.written_unix_ms =
          header->written_unix_ms != 0 ? header->written_unix_ms : header->created_unix_ms;
      record.stored_checksum = header->stored_checksum;
      if (whole && !payload_verifies(files, fd, record)) {
        offset += extent_unit_bytes;
        continue;
      }
      found.push_back(std::move(record));
    } else if (whole) {
      offset += extent_unit_bytes;
      continue;
    }
    last_record_bytes = bytes;
    offset += bytes;
  }
  return {};
}

void sort_by_time(std::vector<FoundRecord>& found) {
  std::stable_sort(found.begin(), found.end(),
                   [](const FoundRecord& left, const FoundRecord& right) {
                     return left.written_unix_ms < right.written_unix_ms;
                   });
}

}  // namespace

Result<std::vector<IndexEntry>> find_records(Files& files, const DataFiles& data) {
  std::vector<FoundRecord> found;
  for (const auto& [file, units] : data.all_units()) {
    if (Status status = find_in_run(files, data.fd(file), {file, 0, units}, false, found);
        !status.ok())
      return error(status);
  }
  sort_by_time(found);
  std::unordered_map<BlockKey, std::size_t> last;
  for (std::size_t i = 0; i < found.size(); ++i) last[found[i].entry.key] = i;
  std::vector<IndexEntry> entries;
  entries.reserve(last.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (last[found[i].entry.key] != i) continue;
    found[i].entry.sequence = entries.size() + 1;
    entries.push_back(std::move(found[i].entry));
  }
  return entries;
}

Result<std::vector<FoundRecord>> find_whole_records(Files& files, const DataFiles& data,
                                                    const std::vector<Extent>& runs) {
  std::vector<FoundRecord> found;
  for (const Extent& run : runs) {
    if (run.end() > data.units(run.file)) continue;  // of a file that was cut or is gone
    if (Status status = find_in_run(files, data.fd(run.file), run, true, found); !status.ok())
      return error(status);
  }
  sort_by_time(found);
  return found;
}

}  // namespace terrace::storage
