// The part of the free room that the next records go to, named in the index beforehand.
//
// A record whose extent lies in the window is found again after a crash although the index has no
// entry for it yet: a start looks for records in the window. So such a block is durable as soon as
// its data is, and its index entry may follow later, in a batch with many others.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "storage/disk/extent_allocator.h"

namespace terrace::storage {

// What a start after a crash has to look through at most.
constexpr std::uint64_t max_window_bytes = 128ull << 20;
// Runs of one window: 12 bytes each in the index.
constexpr std::size_t max_window_runs = 2048;

// One thread. Extents come from an ExtentAllocator that the caller has, and go back there.
class WriteWindow {
 public:
  // `target_units`: how large the window is kept; 0: there is none.
  explicit WriteWindow(std::uint64_t target_units) : target_units_(target_units) {}

  // Room in the window that is durable in the index; nullopt if there is none of that length.
  std::optional<Extent> allocate(std::uint32_t units);

  // Whether it is worth a commit of its own to move the window on.
  bool is_low(const ExtentAllocator& from) const;

  // Whether a commit that takes place anyway should name it anew.
  bool wants_more(const ExtentAllocator& from) const;

  // What the index is to name next: what is left of the window, more runs out of `from`, and
  // `in_use`, extents of the window whose entries that commit does not take. Until confirm() or
  // reject(), allocate() gives only of what was there before.
  std::vector<Extent> propose(ExtentAllocator& from, std::vector<Extent> in_use);
  // The index says so now.
  void confirm();
  // It may or may not.
  void reject(ExtentAllocator& back);

  // Gives back what is free in the window. The index may go on naming it.
  void dissolve(ExtentAllocator& back);
  // As propose(), of no window at all.
  std::vector<Extent> propose_none(ExtentAllocator& back);

  std::vector<Extent> free_extents() const { return free_.free_extents(); }
  // Of the window and of the proposal.
  std::uint64_t free_units() const;
  // Whether the index may name a window.
  bool named() const { return named_; }

 private:
  const std::uint64_t target_units_;
  ExtentAllocator free_;                       // of what the index names
  std::vector<Extent> proposed_;               // to be added to it
  std::uint32_t typical_units_ = 1;            // of a record: shorter runs are of no use
  bool named_ = false, names_nothing_ = true;  // the index; the proposal
};

}  // namespace terrace::storage
