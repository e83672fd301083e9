// A record is a block as it lies on disk and in Redis: a header of 4 KiB that says everything there
// is to verify, then the payload as its codec left it. docs/disk_format.md draws it byte by byte.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/block_key.h"
#include "core/status.h"

namespace terrace {

constexpr std::size_t record_header_bytes = 4096;
constexpr std::uint32_t record_version = 2;

// How a payload is stored: as it is, as one zstd frame, or as planes of bytes (see
// storage/codec/plane_codec.h).
enum class Codec : std::uint32_t { raw = 0, zstd = 1, planes = 2 };

constexpr bool is_codec(std::uint32_t number) { return number <= 2; }
constexpr const char* to_string(Codec codec) {
  return codec == Codec::raw ? "raw" : codec == Codec::zstd ? "zstd" : "planes";
}

struct RecordHeader {
  BlockKey space;  // the space's digest
  BlockKey key;
  BlockKey parent;            // equals `space` for a first block
  std::vector<Token> tokens;  // block_tokens of them
  Codec codec = Codec::raw;
  std::uint64_t payload_bytes = 0;  // the block's bytes
  std::uint64_t stored_bytes =
      0;  // the payload as stored, without padding; equals payload_bytes for raw
  std::uint64_t payload_checksum = 0;  // of the block's bytes (core/checksum.h)
  std::uint64_t stored_checksum = 0;   // of the stored bytes; equals payload_checksum for raw
  std::int64_t created_unix_ms = 0;    // when the block was sealed, wherever that was
  std::int64_t written_unix_ms = 0;    // when it was put here; 0: not known

  bool operator==(const RecordHeader&) const = default;
};

// Writes the header into exactly record_header_bytes, the rest zeroed, a checksum at its end.
// invalid_argument for lengths that no record can have: no tokens or more than max_block_tokens, a
// payload of nothing or over max_block_bytes, stored lengths and checksums that do not fit the
// codec (raw: equal to the payload's; others: shorter).
Status encode_record_header(const RecordHeader& header, std::span<std::byte> out);

// Reads and verifies a header: magic, checksum, version, lengths, and that `key` is the key of
// `tokens` after `parent`. corruption if it does not verify; failed_precondition with a clear
// message for another version.
Result<RecordHeader> decode_record_header(std::span<const std::byte> bytes);

}  // namespace terrace
