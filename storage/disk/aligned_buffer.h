// Memory that O_DIRECT accepts.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

#include "core/bytes.h"
#include "storage/disk/extent.h"

namespace terrace::storage {

// A page-aligned buffer that grows when asked; growing loses its contents. Not initialized.
class AlignedBuffer {
 public:
  // At least `bytes` bytes, rounded up to whole units.
  void ensure(std::size_t bytes) {
    if (bytes <= size_) return;
    const std::size_t size = round_up(bytes, extent_unit_bytes);
    void* memory = std::aligned_alloc(extent_unit_bytes, size);
    if (memory == nullptr) throw std::bad_alloc();
    data_.reset(static_cast<std::byte*>(memory));
    size_ = size;
  }
  void release() {
    data_.reset();
    size_ = 0;
  }

  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  std::span<std::byte> span() const { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

inline bool is_page_aligned(const void* at) {
  return reinterpret_cast<std::uintptr_t>(at) % extent_unit_bytes == 0;
}

}  // namespace terrace::storage
