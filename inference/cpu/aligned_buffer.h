// Memory that begins at a cache line.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>

namespace terrace::inference {

// An uninitialised, 64-byte aligned run of bytes. Throws std::bad_alloc.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t bytes);

  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

}  // namespace terrace::inference
