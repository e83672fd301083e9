#include "storage/redis/value_reader.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace terrace::storage::redis {

namespace {

tl::unexpected<Status> corrupt(std::string message) {
  return error(StatusCode::corruption, std::move(message));
}

}  // namespace

void ValueReader::begin(std::uint64_t length, std::shared_ptr<ReadTask> task) {
  task_ = std::move(task);
  length_ = length;
  position_ = 0;
  framed_ = true;
  discarding_ = length != record_header_bytes + task_->request.destination.size();
  if (!discarding_) task_->checksum = GrowingChecksum(task_->request.destination);
}

std::uint64_t ValueReader::payload_left() const {
  if (!active() || length_ <= record_header_bytes || position_ >= length_) return 0;
  return length_ - std::max<std::uint64_t>(position_, record_header_bytes);
}

std::size_t ValueReader::other_bytes() const {
  if (!active()) return 0;
  if (position_ < record_header_bytes && position_ < length_)
    return std::min<std::uint64_t>(length_, record_header_bytes) - position_;
  return position_ < length_ ? 0 : length_ + end_bytes - position_;
}

// Where up to `bytes` of payload go now.
std::span<std::byte> ValueReader::place(std::uint64_t bytes) {
  bytes = std::min<std::uint64_t>(bytes, payload_left());
  // The caller has its memory back.
  if (task_->done) discarding_ = true;
  if (discarding_) return scratch_.first(std::min<std::uint64_t>(bytes, scratch_.size()));
  return task_->request.destination.subspan(position_ - record_header_bytes, bytes);
}

std::span<std::byte> ValueReader::target() {
  if (payload_left() == 0 || other_bytes() > 0) return {};
  return place(transfer_part_bytes);
}

void ValueReader::filled(std::size_t bytes) {
  position_ += bytes;
  if (!discarding_) task_->checksum.advance(position_ - record_header_bytes);
}

std::size_t ValueReader::take(std::span<const std::byte> staged) {
  std::size_t taken = 0;
  while (taken < staged.size() && !complete()) {
    const auto rest = staged.subspan(taken);
    if (const std::size_t other = other_bytes(); other > 0) {
      const std::size_t bytes = std::min(other, rest.size());
      if (position_ < length_) {
        std::memcpy(header_.data() + position_, rest.data(), bytes);
      } else {
        const std::string_view end = "\r\n";
        const auto* const text = reinterpret_cast<const char*>(rest.data());
        if (end.substr(position_ - length_, bytes) != std::string_view(text, bytes))
          framed_ = false;
      }
      position_ += bytes;
      taken += bytes;
    } else {
      const std::span<std::byte> to = place(rest.size());
      std::memcpy(to.data(), rest.data(), to.size());
      filled(to.size());
      taken += to.size();
    }
  }
  return taken;
}

Result<std::uint64_t> ValueReader::verify() const {
  if (length_ < record_header_bytes)
    return corrupt("a value of " + std::to_string(length_) + " bytes is no record");
  const auto header = decode_record_header(header_);
  // Under a key that names our format lies nothing of another one.
  if (!header) return corrupt(header.error().message());
  const RemoteRead& asked = task_->request;
  if (header->space != asked.space || header->key != asked.key || header->parent != asked.parent ||
      header->tokens != asked.tokens)
    return corrupt("the record is not of the block that was asked for");
  if (header->payload_bytes != asked.destination.size())
    return corrupt("the record is of a block of " + std::to_string(header->payload_bytes) +
                   " bytes, not " + std::to_string(asked.destination.size()));
  if (length_ != record_header_bytes + header->stored_bytes)
    return corrupt("the value is not as long as its record");
  task_->created_unix_ms = header->created_unix_ms;
  if (header->codec != Codec::raw)
    return error(StatusCode::not_found, std::string("the block is stored with codec ") +
                                            to_string(header->codec) +
                                            ", which is not read from here");
  const std::uint64_t checksum = task_->checksum.finish();
  if (checksum != header->payload_checksum)
    return corrupt("the checksum of the payload does not match");
  return checksum;
}

Result<std::uint64_t> ValueReader::finish() {
  Result<std::uint64_t> outcome = error(StatusCode::unavailable, "given up");
  if (!task_->done) outcome = verify();
  task_.reset();
  return outcome;
}

}  // namespace terrace::storage::redis
