#include "inference/model/private_kv.h"

#include <cstring>
#include <string>

#include "core/bytes.h"

namespace terrace::inference {

Status PrivateKv::reserve(std::size_t tokens) {
  constexpr std::size_t alignment = 4 * kib;
  const std::size_t bytes = geometry_.block_bytes();
  while (capacity_tokens() < tokens) {
    std::unique_ptr<std::byte, Free> block(
        static_cast<std::byte*>(std::aligned_alloc(alignment, round_up(bytes, alignment))));
    if (!block)
      return {StatusCode::resource_exhausted, "no memory for a KV block of " + format_bytes(bytes)};
    std::memset(block.get(), 0, bytes);
    addresses_.push_back(block.get());
    memory_.push_back(std::move(block));
  }
  return {};
}

}  // namespace terrace::inference
