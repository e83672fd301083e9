#include "core/record.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "core/bytes.h"
#include "core/checksum.h"
#include "core/space.h"

namespace terrace {

namespace {

// Offsets of the fields; docs/disk_format.md draws them. The places of magic, version and checksum
// are the same in every version, so that a header of another version is told from a broken one.
constexpr std::size_t at_magic = 0, at_version = 8, at_codec = 12, at_payload_bytes = 16,
                      at_stored_bytes = 24, at_payload_checksum = 32, at_stored_checksum = 40,
                      at_created_unix_ms = 48, at_token_count = 56, at_space = 64, at_key = 96,
                      at_parent = 128, at_written_unix_ms = 160, at_tokens = 256,
                      at_checksum = record_header_bytes - 8;
constexpr char magic[8] = {'T', 'E', 'R', 'R', 'B', 'L', 'K', '\n'};

static_assert(at_tokens + max_block_tokens * sizeof(Token) <= at_checksum);

tl::unexpected<Status> corrupt(std::string message) {
  return error(StatusCode::corruption, "record header: " + std::move(message));
}

void store_key(std::byte* to, const BlockKey& key) {
  std::memcpy(to, key.bytes.data(), key.bytes.size());
}

BlockKey load_key(const std::byte* from) {
  BlockKey key;
  std::memcpy(key.bytes.data(), from, key.bytes.size());
  return key;
}

Status check_lengths(const RecordHeader& header) {
  const auto invalid = [](std::string message) {
    return Status(StatusCode::invalid_argument, std::move(message));
  };
  if (header.tokens.empty() || header.tokens.size() > max_block_tokens)
    return invalid(std::to_string(header.tokens.size()) + " tokens; expected 1 to " +
                   std::to_string(max_block_tokens));
  if (header.payload_bytes == 0 || header.payload_bytes > max_block_bytes)
    return invalid("a payload of " + std::to_string(header.payload_bytes) +
                   " bytes; expected 1 to " + std::to_string(max_block_bytes));
  if (header.codec == Codec::raw
          ? header.stored_bytes != header.payload_bytes ||
                header.stored_checksum != header.payload_checksum
          : header.stored_bytes == 0 || header.stored_bytes >= header.payload_bytes)
    return invalid("stored length or checksum do not fit codec " +
                   std::string(to_string(header.codec)));
  return {};
}

}  // namespace

Status encode_record_header(const RecordHeader& header, std::span<std::byte> out) {
  if (out.size() != record_header_bytes)
    return Status(StatusCode::invalid_argument, "a record header takes 4096 bytes");
  if (Status lengths = check_lengths(header); !lengths.ok()) return lengths;

  std::byte* const to = out.data();
  std::memset(to, 0, record_header_bytes);
  std::memcpy(to + at_magic, magic, sizeof magic);
  store_le<std::uint32_t>(to + at_version, record_version);
  store_le<std::uint32_t>(to + at_codec, static_cast<std::uint32_t>(header.codec));
  store_le<std::uint64_t>(to + at_payload_bytes, header.payload_bytes);
  store_le<std::uint64_t>(to + at_stored_bytes, header.stored_bytes);
  store_le<std::uint64_t>(to + at_payload_checksum, header.payload_checksum);
  store_le<std::uint64_t>(to + at_stored_checksum, header.stored_checksum);
  store_le<std::int64_t>(to + at_created_unix_ms, header.created_unix_ms);
  store_le<std::int64_t>(to + at_written_unix_ms, header.written_unix_ms);
  store_le<std::uint32_t>(to + at_token_count, static_cast<std::uint32_t>(header.tokens.size()));
  store_key(to + at_space, header.space);
  store_key(to + at_key, header.key);
  store_key(to + at_parent, header.parent);
  std::memcpy(to + at_tokens, header.tokens.data(), header.tokens.size() * sizeof(Token));
  store_le<std::uint64_t>(to + at_checksum, xxh3(out.first(at_checksum)));
  return {};
}

Result<RecordHeader> decode_record_header(std::span<const std::byte> bytes) {
  if (bytes.size() != record_header_bytes) return corrupt("not 4096 bytes long");
  const std::byte* const from = bytes.data();
  if (std::memcmp(from + at_magic, magic, sizeof magic) != 0) return corrupt("no record here");
  if (load_le<std::uint64_t>(from + at_checksum) != xxh3(bytes.first(at_checksum)))
    return corrupt("its checksum does not match");
  const auto version = load_le<std::uint32_t>(from + at_version);
  if (version != record_version)
    return error(StatusCode::failed_precondition,
                 "record of format version " + std::to_string(version) +
                     "; this program reads version " + std::to_string(record_version));

  RecordHeader header;
  const auto codec = load_le<std::uint32_t>(from + at_codec);
  if (!is_codec(codec)) return corrupt("unknown codec " + std::to_string(codec));
  header.codec = static_cast<Codec>(codec);
  header.payload_bytes = load_le<std::uint64_t>(from + at_payload_bytes);
  header.stored_bytes = load_le<std::uint64_t>(from + at_stored_bytes);
  header.payload_checksum = load_le<std::uint64_t>(from + at_payload_checksum);
  header.stored_checksum = load_le<std::uint64_t>(from + at_stored_checksum);
  header.created_unix_ms = load_le<std::int64_t>(from + at_created_unix_ms);
  header.written_unix_ms = load_le<std::int64_t>(from + at_written_unix_ms);
  const auto token_count = load_le<std::uint32_t>(from + at_token_count);
  if (token_count == 0 || token_count > max_block_tokens)
    return corrupt(std::to_string(token_count) + " tokens");
  header.tokens.resize(token_count);
  std::memcpy(header.tokens.data(), from + at_tokens, token_count * sizeof(Token));
  header.space = load_key(from + at_space);
  header.key = load_key(from + at_key);
  header.parent = load_key(from + at_parent);

  if (Status lengths = check_lengths(header); !lengths.ok()) return corrupt(lengths.message());
  if (header.key != derive_block_key(header.parent, header.tokens))
    return corrupt("its key is not the key of its tokens");
  return header;
}

}  // namespace terrace
