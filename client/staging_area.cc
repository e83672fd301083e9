#include "client/staging_area.h"

#include <algorithm>
#include <utility>

namespace terrace::client {
namespace {

// Blocks begin at pages: copies are quickest then.
constexpr std::uint64_t piece_alignment_bytes = 4096;

}  // namespace

StagingArea::StagingArea(SharedMapping mapping, std::uint64_t bytes, std::uint32_t max_piece_bytes)
    : mapping_(std::move(mapping)), bytes_(bytes), max_piece_bytes_(max_piece_bytes) {
  free_.emplace(0, bytes_);
}

std::optional<std::uint64_t> StagingArea::take_one(std::uint64_t piece_bytes) {
  const auto fits =
      std::ranges::find_if(free_, [&](const auto& range) { return range.second >= piece_bytes; });
  if (fits == free_.end()) return std::nullopt;
  const auto [offset, bytes] = *fits;
  free_.erase(fits);
  if (bytes > piece_bytes) free_.emplace(offset + piece_bytes, bytes - piece_bytes);
  return offset;
}

Result<std::shared_ptr<StagedBlocks>> StagingArea::take(std::uint64_t block_bytes, std::size_t most,
                                                        std::optional<Deadline> deadline) {
  const std::uint64_t piece_bytes =
      (block_bytes + piece_alignment_bytes - 1) / piece_alignment_bytes * piece_alignment_bytes;
  if (piece_bytes > bytes_)
    return error(StatusCode::invalid_argument,
                 "a block of " + std::to_string(block_bytes) + " bytes does not fit the " +
                     std::to_string(bytes_) + " bytes of the staging region");
  std::vector<std::uint64_t> offsets;
  {
    std::unique_lock lock(mutex_);
    while (!closed_ && offsets.empty()) {
      while (offsets.size() < most) {
        const auto offset = take_one(piece_bytes);
        if (!offset) break;
        offsets.push_back(*offset);
      }
      if (!offsets.empty()) break;
      if (!deadline) return nullptr;
      if (freed_.wait_until(lock, *deadline) == std::cv_status::timeout)
        return error(StatusCode::deadline_exceeded, "the staging region was full for too long");
    }
    if (closed_) return error(StatusCode::unavailable, "the connection to terraced is gone");
  }
  return std::make_shared<StagedBlocks>(shared_from_this(), std::move(offsets), piece_bytes);
}

void StagingArea::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  freed_.notify_all();
}

void StagingArea::give_back(const std::vector<std::uint64_t>& offsets, std::uint64_t piece_bytes) {
  {
    const std::lock_guard lock(mutex_);
    for (const std::uint64_t offset : offsets) {
      auto range = free_.emplace(offset, piece_bytes).first;
      if (const auto next = std::next(range);
          next != free_.end() && range->first + range->second == next->first) {
        range->second += next->second;
        free_.erase(next);
      }
      if (range != free_.begin()) {
        const auto before = std::prev(range);
        if (before->first + before->second == range->first) {
          before->second += range->second;
          free_.erase(range);
        }
      }
    }
  }
  freed_.notify_all();
}

}  // namespace terrace::client
