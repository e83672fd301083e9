// The memory that blocks and slots are made of: one run of addresses, reserved at once and taken
// into use as it is needed, so that objects in it never move and can name each other in 32 bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace terrace::storage {

class Region {
 public:
  // Named limit: what short pointers reach, about 60 million blocks of 32 tokens.
  static constexpr std::size_t reserved_bytes = std::size_t{16} << 30;
  // What take() hands out at least; pools grow by it.
  static constexpr std::size_t piece_bytes = 64 << 10;

  // Where the system does not let so much be reserved, less is; where it lets nothing be, take()
  // fails.
  Region();
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  // A zeroed piece of piece_bytes, until the region ends; null if there is no more.
  std::byte* take();

  const std::byte* base() const { return base_; }
  // Of the pieces that were taken.
  std::size_t taken_bytes() const { return taken_; }

 private:
  bool commit_more();

  std::byte* base_ = nullptr;
  std::size_t size_ = 0;
  std::size_t committed_ = 0;  // from the base on: readable and writable
  std::size_t taken_ = 0;
};

// Hands out places of one size in a region. A place that is free again is given next.
class Pool {
 public:
  // `item_bytes`: at most Region::piece_bytes.
  Pool(Region& region, std::size_t item_bytes);

  // Of unknown contents; null if the region has no more.
  void* allocate();
  void free(void* item);

  std::size_t item_bytes() const { return item_bytes_; }
  std::size_t used() const { return used_; }
  // Of all its pieces, whether in use or not.
  std::size_t bytes() const { return pieces_ * Region::piece_bytes; }

 private:
  struct Free {
    Free* next;
  };

  Region& region_;
  std::size_t item_bytes_;
  std::byte* fresh_ = nullptr;  // never handed out yet, up to fresh_end_
  std::byte* fresh_end_ = nullptr;
  Free* free_ = nullptr;
  std::size_t used_ = 0, pieces_ = 0;
};

}  // namespace terrace::storage
