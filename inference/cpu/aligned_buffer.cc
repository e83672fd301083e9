#include "inference/cpu/aligned_buffer.h"

#include <new>

#include "core/bytes.h"

namespace terrace::inference {

AlignedBuffer::AlignedBuffer(std::size_t bytes) : size_(bytes) {
  constexpr std::size_t line = 64;
  if (bytes == 0) return;
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(line, round_up(bytes, line))));
  if (data_ == nullptr) throw std::bad_alloc();
}

}  // namespace terrace::inference
