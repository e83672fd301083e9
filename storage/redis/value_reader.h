// Receives one value: its header into a buffer, its payload straight into the place that was asked
// for, hashed while it comes in, and verified against what was asked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/record.h"
#include "storage/redis/command.h"

namespace terrace::storage::redis {

// Payload is received in so large parts: what was just copied is still in the cache to be hashed.
constexpr std::size_t transfer_part_bytes = 128 * 1024;

class ValueReader {
 public:
  // `scratch` takes what nobody wants: a value of another length, the rest of one that was given
  // up.
  explicit ValueReader(std::span<std::byte> scratch) : scratch_(scratch) {}

  // A value of `length` bytes begins; behind it come "\r\n".
  void begin(std::uint64_t length, std::shared_ptr<ReadTask> task);
  bool active() const { return task_ != nullptr; }

  // Takes of `staged` what belongs to the value, and says how many bytes that is.
  std::size_t take(std::span<const std::byte> staged);

  // Where the next bytes of the payload are to be received; empty if something else comes next, or
  // nothing. Valid until the next call.
  std::span<std::byte> target();
  void filled(std::size_t bytes);
  // How many bytes other than payload come next: of the header, of the end; 0 if target() is next.
  std::size_t other_bytes() const;
  // What is left of the payload.
  std::uint64_t payload_left() const;

  bool complete() const { return position_ == length_ + end_bytes; }
  // Once complete: the payload's checksum; corruption if the value is not what was asked for;
  // not_found if it is, in a form that this program does not read. Ends this value.
  Result<std::uint64_t> finish();
  // Whether the value was followed by what has to follow it.
  bool framed() const { return framed_; }
  // Forgets a value in the middle.
  void abandon() { task_.reset(); }

 private:
  static constexpr std::size_t end_bytes = 2;

  std::span<std::byte> place(std::uint64_t bytes);
  Result<std::uint64_t> verify() const;

  const std::span<std::byte> scratch_;
  std::shared_ptr<ReadTask> task_;
  std::uint64_t length_ = 0, position_ = 0;  // of value and end
  bool discarding_ = false;                  // the payload goes nowhere
  bool framed_ = true;
  std::array<std::byte, record_header_bytes> header_;
};

}  // namespace terrace::storage::redis
