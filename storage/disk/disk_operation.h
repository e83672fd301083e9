// One read or write of a record while its I/O is under way, with the memory that it needs.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <span>

#include "core/record.h"
#include "storage/codec/payload_codec.h"
#include "storage/disk/aligned_buffer.h"
#include "storage/disk/disk_tier.h"
#include "storage/disk/recovery.h"

namespace terrace::storage {

// Bounce buffers over this size are given back after use.
constexpr std::size_t max_kept_bounce_bytes = 4 * mib;

// The buffers of an operation and how they lie in the record: header, payload, last page.
class RecordBuffers {
 public:
  RecordBuffers() { pages_.ensure(2 * extent_unit_bytes); }

  std::span<std::byte> header() const { return pages_.span().first(extent_unit_bytes); }
  // For the part of a payload that does not fill a page.
  std::span<std::byte> tail() const {
    return pages_.span().subspan(extent_unit_bytes, extent_unit_bytes);
  }
  AlignedBuffer& bounce() { return bounce_; }

  // The record is the header, then whole pages of `payload` in place and the rest in tail().
  void gather_in_place(std::span<std::byte> payload);
  // The record is the header, then `bytes` of bounce(), rounded up to whole pages.
  void gather_bounce(std::size_t bytes);

  std::span<const iovec> iovecs() const { return {iovecs_.data(), iovec_count_}; }
  std::uint64_t bytes() const;
  bool in_place() const { return in_place_; }

  // Called when the operation is over.
  void trim() {
    if (bounce_.size() > max_kept_bounce_bytes) bounce_.release();
  }

 private:
  void add(std::byte* at, std::size_t bytes);

  AlignedBuffer pages_, bounce_;
  std::array<iovec, 3> iovecs_{};
  std::size_t iovec_count_ = 0;
  bool in_place_ = false;
};

struct ReadOperation {
  std::uint64_t slot = 0;  // its number among the read operations
  DiskRead request;
  LocatedBlock located;
  RecordBuffers buffers;

  // Chooses where the record is read to.
  void prepare();
  // Verifies the header against what was asked for and where the index said it is.
  Result<RecordHeader> verify_header() const;
  // Verifies the payload while it is brought to its destination; its checksum or corruption. Heavy:
  // any thread.
  Result<std::uint64_t> verify_payload(const RecordHeader& header, PayloadCodec* codec);
};

struct WriteOperation {
  std::uint64_t slot = 0;  // its number among the write operations
  DiskWrite request;
  std::uint64_t number = 0;  // of the request, in the order of arrival
  RecordHeader header;
  Extent extent;
  bool in_window = false;  // extent lies in the write window
  RecordBuffers buffers;

  // Verifies the payload, encodes it with `codec` (null: raw) where that saves a page, and fills
  // in the header. corruption if the payload is not what its checksum says. Heavy: any thread.
  Status prepare(PayloadCodec* codec, std::size_t element_bytes, std::int64_t now_unix_ms);
  std::uint32_t units() const {
    return static_cast<std::uint32_t>(buffers.bytes() / extent_unit_bytes);
  }
};

}  // namespace terrace::storage
