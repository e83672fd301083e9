// The staging region of one connection, as the threads that copy through it see it: who uses which
// part of it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "client/client.h"
#include "core/shared_memory.h"
#include "core/status.h"

namespace terrace::client {

class StagedBlocks;

// Any thread.
class StagingArea : public std::enable_shared_from_this<StagingArea> {
 public:
  // `mapping` is empty where payload goes by messages.
  StagingArea(SharedMapping mapping, std::uint64_t bytes, std::uint32_t max_piece_bytes);

  // Null where payload goes by messages.
  std::byte* data() const { return mapping_.data(); }
  std::uint64_t size() const { return bytes_; }
  // Of one message.
  std::uint32_t max_piece_bytes() const { return max_piece_bytes_; }

  // Room for up to `most` blocks, at least one, none of which anybody else uses. Without a deadline
  // it does not wait, and gives null where nothing is free. invalid_argument if no block fits at
  // all, deadline_exceeded, unavailable once closed.
  Result<std::shared_ptr<StagedBlocks>> take(std::uint64_t block_bytes, std::size_t most,
                                             std::optional<Deadline> deadline);
  // The connection is gone: nobody gets room any more.
  void close();

 private:
  friend class StagedBlocks;
  void give_back(const std::vector<std::uint64_t>& offsets, std::uint64_t piece_bytes);
  // With mutex_ held.
  std::optional<std::uint64_t> take_one(std::uint64_t piece_bytes);

  const SharedMapping mapping_;
  const std::uint64_t bytes_;
  const std::uint32_t max_piece_bytes_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::map<std::uint64_t, std::uint64_t> free_;  // offset and bytes
  bool closed_ = false;
};

// Places for blocks in the area, given back with the object: by whoever comes last, the caller or
// the daemon's answer.
class StagedBlocks {
 public:
  StagedBlocks(std::shared_ptr<StagingArea> area, std::vector<std::uint64_t> offsets,
               std::uint64_t piece_bytes)
      : area_(std::move(area)), offsets_(std::move(offsets)), piece_bytes_(piece_bytes) {}
  ~StagedBlocks() { area_->give_back(offsets_, piece_bytes_); }
  StagedBlocks(const StagedBlocks&) = delete;
  StagedBlocks& operator=(const StagedBlocks&) = delete;

  const std::shared_ptr<StagingArea>& area() const { return area_; }
  const std::vector<std::uint64_t>& offsets() const { return offsets_; }
  std::byte* address(std::size_t index) const { return area_->data() + offsets_[index]; }
  std::size_t size() const { return offsets_.size(); }

 private:
  const std::shared_ptr<StagingArea> area_;
  const std::vector<std::uint64_t> offsets_;
  const std::uint64_t piece_bytes_;
};

}  // namespace terrace::client
