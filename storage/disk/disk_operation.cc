#include "storage/disk/disk_operation.h"

#include <cstring>
#include <string>

#include "core/checksum.h"

namespace terrace::storage {

namespace {

tl::unexpected<Status> corrupt(const char* message) {
  return error(StatusCode::corruption, message);
}

}  // namespace

void RecordBuffers::add(std::byte* at, std::size_t bytes) {
  if (bytes > 0) iovecs_[iovec_count_++] = {at, bytes};
}

void RecordBuffers::gather_in_place(std::span<std::byte> payload) {
  const std::size_t whole = payload.size() / extent_unit_bytes * extent_unit_bytes;
  iovec_count_ = 0;
  in_place_ = true;
  add(header().data(), extent_unit_bytes);
  add(payload.data(), whole);
  if (whole < payload.size()) add(tail().data(), extent_unit_bytes);
}

void RecordBuffers::gather_bounce(std::size_t bytes) {
  iovec_count_ = 0;
  in_place_ = false;
  add(header().data(), extent_unit_bytes);
  add(bounce_.data(), round_up(bytes, extent_unit_bytes));
}

std::uint64_t RecordBuffers::bytes() const {
  std::uint64_t sum = 0;
  for (const iovec& one : iovecs()) sum += one.iov_len;
  return sum;
}

void ReadOperation::prepare() {
  if (located.codec == Codec::raw && is_page_aligned(request.destination.data())) {
    buffers.gather_in_place(request.destination);
  } else {
    const std::uint64_t room_bytes = located.extent.bytes() - record_header_bytes;
    buffers.bounce().ensure(room_bytes);
    buffers.gather_bounce(room_bytes);
  }
}

Result<RecordHeader> ReadOperation::verify_header() const {
  auto header = decode_record_header(buffers.header());
  // A version of its own inside a store of ours is no format of the future but a broken record.
  if (!header) return error(StatusCode::corruption, header.error().message());
  if (header->key != request.key) return corrupt("the record is that of another block");
  if (header->space != request.space || header->parent != request.parent ||
      header->tokens != request.tokens)
    return corrupt("the record is not of the block that was asked for");
  if (header->codec != located.codec || record_units(header->stored_bytes) != located.extent.units)
    return corrupt("the record is not what the index says");
  // The record is right, only the question is not.
  if (header->payload_bytes != request.destination.size())
    return error(StatusCode::invalid_argument,
                 "the block has " + std::to_string(header->payload_bytes) + " bytes, not " +
                     std::to_string(request.destination.size()));
  return header;
}

Result<std::uint64_t> ReadOperation::verify_payload(const RecordHeader& header,
                                                    PayloadCodec* codec) {
  const std::span<std::byte> out = request.destination;
  std::uint64_t checksum = 0;
  if (header.codec == Codec::raw) {
    if (buffers.in_place()) {
      const std::size_t whole = out.size() / extent_unit_bytes * extent_unit_bytes;
      if (whole < out.size())
        std::memcpy(out.data() + whole, buffers.tail().data(), out.size() - whole);
      checksum = payload_checksum(out);
    } else {
      checksum = copy_with_checksum(out.data(), buffers.bounce().span().first(out.size()));
    }
  } else {
    const auto stored = buffers.bounce().span().first(header.stored_bytes);
    if (payload_checksum(stored) != header.stored_checksum)
      return corrupt("the checksum of the stored payload does not match");
    if (Status decoded = codec->decode(stored, out); !decoded.ok()) return error(decoded);
    checksum = payload_checksum(out);
  }
  if (checksum != header.payload_checksum)
    return corrupt("the checksum of the payload does not match");
  return checksum;
}

Status WriteOperation::prepare(PayloadCodec* codec, std::size_t element_bytes,
                               std::int64_t now_unix_ms) {
  const std::span<const std::byte> payload = request.payload;
  header.space = request.space;
  header.key = request.key;
  header.parent = request.parent;
  header.tokens = request.tokens;
  header.codec = Codec::raw;
  header.payload_bytes = header.stored_bytes = payload.size();
  header.payload_checksum = header.stored_checksum = request.payload_checksum;
  header.created_unix_ms = request.created_unix_ms != 0 ? request.created_unix_ms : now_unix_ms;
  header.written_unix_ms = now_unix_ms;

  const auto mismatch = [] {
    return Status(StatusCode::corruption,
                  "the bytes to be written are not what their checksum says");
  };
  // The most that a stored payload may take and still save a page.
  const std::size_t worth_bytes = round_up(payload.size(), extent_unit_bytes) - extent_unit_bytes;
  if (codec != nullptr && worth_bytes > 0) {
    if (payload_checksum(payload) != request.payload_checksum) return mismatch();
    buffers.bounce().ensure(worth_bytes);
    const auto stored =
        codec->encode(payload, element_bytes, buffers.bounce().span().first(worth_bytes));
    if (stored) {
      header.codec = codec->id();
      header.stored_bytes = *stored;
      header.stored_checksum = payload_checksum(buffers.bounce().span().first(*stored));
      std::memset(buffers.bounce().data() + *stored, 0,
                  round_up(*stored, extent_unit_bytes) - *stored);
      buffers.gather_bounce(*stored);
      return {};
    }
  }
  if (is_page_aligned(payload.data())) {
    if (payload_checksum(payload) != request.payload_checksum) return mismatch();
    const std::size_t whole = payload.size() / extent_unit_bytes * extent_unit_bytes;
    if (const std::size_t rest = payload.size() - whole; rest > 0) {
      std::memcpy(buffers.tail().data(), payload.data() + whole, rest);
      std::memset(buffers.tail().data() + rest, 0, extent_unit_bytes - rest);
    }
    // The ring only reads from what it writes.
    buffers.gather_in_place({const_cast<std::byte*>(payload.data()), payload.size()});
  } else {
    buffers.bounce().ensure(payload.size());
    if (copy_with_checksum(buffers.bounce().data(), payload) != request.payload_checksum)
      return mismatch();
    std::memset(buffers.bounce().data() + payload.size(), 0,
                round_up(payload.size(), extent_unit_bytes) - payload.size());
    buffers.gather_bounce(payload.size());
  }
  return {};
}

}  // namespace terrace::storage
